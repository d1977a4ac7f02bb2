"""Recipes: named, complete descriptions of a pretraining run."""

from hardpair.recipes.named import FAMILIES, RECIPES, describe_recipe, find_recipe, with_method
from hardpair.recipes.recipe import SUPERVISED, Recipe, Setting, check_field, method_settings

__all__ = [
    "FAMILIES",
    "RECIPES",
    "SUPERVISED",
    "Recipe",
    "Setting",
    "check_field",
    "describe_recipe",
    "find_recipe",
    "method_settings",
    "with_method",
]
