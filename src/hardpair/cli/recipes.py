"""`hardpair recipes`: list the recipes, or explain one."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from hardpair.cli.arguments import parse


@dataclass(frozen=True)
class Recipes:
    """What can be trained, by name.

    Args:
        name: explain this one: what it is, its cost, the score to expect, every setting.
    """

    name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")] = None


def main(arguments: Sequence[str]) -> int:
    """List the recipes, or explain one."""
    options = parse(Recipes, arguments, "hardpair recipes")
    from hardpair.recipes import describe_recipe, find_recipe, list_recipes

    if options.name is not None:
        print(f"{describe_recipe(options.name)}\n")
        print(json.dumps(find_recipe(options.name).to_json(), indent=2))
        return 0
    print("\n".join(list_recipes()))
    print("hardpair recipes NAME explains one: what it is, its command, its cost, its score and every value.")
    return 0
