"""Recipes: named, complete descriptions of a pretraining run."""

from hardpair.recipes.named import RECIPES, find_recipe
from hardpair.recipes.recipe import Recipe, Setting, method_settings

__all__ = ["RECIPES", "Recipe", "Setting", "find_recipe", "method_settings"]
