"""The recipes that have a name: ``family/method``, the paper to the letter, and the other encoders of its tables."""

import dataclasses
import inspect
from collections.abc import Callable
from types import ModuleType

from hardpair.errors import UserError, nearest
from hardpair.methods import METHODS
from hardpair.recipes import cifar10, demo, imagenet
from hardpair.recipes.encoder_rows import ROWS
from hardpair.recipes.recipe import SUPERVISED, Recipe


def paper() -> Recipe:
    """The paper to the letter (no head, alpha .8/.1, threshold 1, tau .5, Adam .1, batch 160, clip 1) with the demo's
    photos and encoder. imagenet/hnpm is the same at the paper's own scale.

    Command:  hardpair pretrain paper
    Cost:     4 forwards per image, 100 epochs; about ten minutes on two CPU cores.
    Expected: poor; docs/log.md has its result.
    """
    return Recipe(
        name="paper",
        encoder="resnet10",
        width=0.25,
        epochs=100,
        batch_size=160,
        optimiser="adam",
        learning_rate=0.1,
        schedule="paper",
        clip=1.0,
    )


FAMILIES: dict[str, ModuleType] = {"demo": demo, "cifar10": cifar10, "imagenet": imagenet}

_MADE_BY: dict[str, Callable[[], Recipe]] = {
    "paper": paper,
    **{
        f"{family}/{method}": vars(module)[method]
        for family, module in FAMILIES.items()
        for method in [*METHODS, SUPERVISED]
        if method in vars(module)
    },
}
_ROWS = {row.name: row for row in ROWS}
RECIPES: dict[str, Recipe] = {
    **{name: make() for name, make in _MADE_BY.items()},
    **{name: row.recipe() for name, row in _ROWS.items()},
}


def find_recipe(name: str) -> Recipe:
    """The recipe of that name; a family alone means its HNPM.

    A method for which a family has no recipe gets the family's data, encoder and schedule with its own defaults.
    """
    name = f"{name}/hnpm" if name in FAMILIES else name
    family, _, method = name.partition("/")
    if name not in RECIPES and family in FAMILIES and method in METHODS:
        default: Recipe = FAMILIES[family].default(method)
        return default
    if name not in RECIPES:
        raise UserError(f"recipe: there is no {name!r}{nearest(name, [*RECIPES, *FAMILIES])}")
    return RECIPES[name]


def with_method(recipe: Recipe, method: str) -> Recipe:
    """The same family's recipe of another method; else the same recipe with that method's defaults."""
    family = recipe.name.split("/")[0]
    if family in FAMILIES and method in [*METHODS, SUPERVISED]:
        return find_recipe(f"{family}/{method}")
    return dataclasses.replace(recipe, method=method, settings={})


def describe_recipe(name: str) -> str:
    """What a recipe is, its command, its cost and the score to expect."""
    name = find_recipe(name).name
    if name not in RECIPES:
        return f"The conditions of {name.partition('/')[0]} with the defaults of the method; nobody has tuned it."
    return _ROWS[name].describe() if name in _ROWS else inspect.cleandoc(_MADE_BY[name].__doc__ or "")
