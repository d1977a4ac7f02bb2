"""`hardpair recipes`: list the recipes, or explain one."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import tyro

from hardpair.cli.arguments import parse


@dataclass(frozen=True)
class Recipes:
    """What can be trained, by name.

    Args:
        name: explain this one: what it is, its cost, the score to expect, every setting.
    """

    name: tyro.conf.Positional[str | None] = None


def main(arguments: Sequence[str]) -> int:
    """List the recipes, or explain one."""
    options = parse(Recipes, arguments, "hardpair recipes")
    from hardpair.recipes import RECIPES, describe_recipe, find_recipe

    if options.name is not None:
        print(f"{describe_recipe(options.name)}\n")
        print(json.dumps(find_recipe(options.name).to_json(), indent=2))
        return 0
    for name, recipe in RECIPES.items():
        size = f"{recipe.encoder}, width {recipe.width:g}, {recipe.epochs} epochs, batch {recipe.batch_size}"
        print(f"{name:20} {size:45} {describe_recipe(name).splitlines()[0]}")
    return 0
