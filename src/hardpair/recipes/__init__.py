"""Recipes: named, complete descriptions of a pretraining run.

A name is ``family/method``, ``paper`` (the paper to the letter), or one of ImageNet's larger encoders. The docstring of
a recipe gives its command, its cost and its score.
"""

import dataclasses
import inspect
from collections.abc import Callable
from types import ModuleType

from hardpair.errors import UserError, nearest
from hardpair.methods import METHODS
from hardpair.models import DEPTHS, read_shape
from hardpair.recipes import cifar10, demo, imagenet, photos
from hardpair.recipes.recipe import SUPERVISED, Recipe, Setting, check_field, method_settings, tested_side

FAMILIES: dict[str, ModuleType] = {"demo": demo, "cifar10": cifar10, "imagenet": imagenet}
OWN_PHOTOS = "photos"
"""The recipe of which train/own_photos.py chooses what was not given."""
CHOSEN = {"image_size", "view_size", "small_images", "encoder", "width", "batch_size", "learning_rate", "epochs"}
"""What it chooses, but for the precision."""
_FUNCTIONS: dict[str, Callable[[], Recipe]] = {
    "paper": demo.paper,
    OWN_PHOTOS: photos.photos,
    **{
        f"{family}/{method}": vars(module)[method]
        for family, module in FAMILIES.items()
        for method in [*METHODS, SUPERVISED]
        if method in vars(module)
    },
    **{f"imagenet/{name}": make for name, make in imagenet.VARIANTS.items()},
}
_LARGE = {large.name: large for large in imagenet.LARGE_ENCODERS}
RECIPES: dict[str, Recipe] = {
    **{name: make() for name, make in _FUNCTIONS.items()},
    **{name: large.recipe() for name, large in _LARGE.items()},
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
    if recipe.name == OWN_PHOTOS and method in METHODS:
        return dataclasses.replace(find_recipe(f"demo/{method}"), name=OWN_PHOTOS, precision=recipe.precision)
    if family in FAMILIES and method in [*METHODS, SUPERVISED]:
        return find_recipe(f"{family}/{method}")
    return dataclasses.replace(recipe, method=method, settings={})


def with_encoder(recipe: Recipe, encoder: str) -> Recipe:
    """The same recipe with another encoder; width, stem and kernels of ResNets mean nothing to timm's models."""
    if encoder in DEPTHS:
        return dataclasses.replace(recipe, encoder=encoder)
    return dataclasses.replace(recipe, encoder=encoder, width=1.0, sk=False, small_images=False, zero_init=False)


def with_init(recipe: Recipe, init: str) -> Recipe:
    """The same recipe from these weights, with the encoder that they are known to belong to, if it is known."""
    shape = read_shape(init).shape
    if shape:
        recipe = with_encoder(recipe, shape["name"])
        known = {name: shape[name] for name in ("width", "sk", "small_images") if name in shape}
        recipe = dataclasses.replace(recipe, **known)
    return dataclasses.replace(recipe, init=init)


def describe_recipe(name: str) -> str:
    """What a recipe is, its command, its cost and its score."""
    name = find_recipe(name).name
    if name not in RECIPES:
        return f"The conditions of {name.partition('/')[0]} with the defaults of the method; nobody has tuned it."
    return _LARGE[name].describe() if name in _LARGE else inspect.cleandoc(_FUNCTIONS[name].__doc__ or "")


def measured_score(name: str) -> str:
    """The score measured here, with seeds and date, or "not run …": what the Score line says before its semicolon."""
    return " ".join(describe_recipe(name).partition("Score:")[2].split()).partition(";")[0]


def run_or_not(name: str) -> str:
    """Whether a recipe was run here, and with which score; if not, whose settings it has."""
    score = measured_score(name)
    if not score.startswith("not run"):
        return f"run here: {score}"
    whose = "published settings" if "published: " in describe_recipe(name).partition("Score:")[2] else "our settings"
    return f"{whose}, {score}"


def list_recipes() -> list[str]:
    """One line per recipe, in columns: its name, its size, and whether it was run here."""
    table = [("recipe", "encoder and schedule", "run here, with top-1 in per cent, or not")]
    for name, recipe in RECIPES.items():
        size = f"{recipe.encoder}, width {recipe.width:g}, {recipe.epochs} epochs, batch {recipe.batch_size}"
        table.append((name, size, run_or_not(name)))
    widths = [max(len(row[column]) for row in table) for column in (0, 1)]
    return [f"{name:{widths[0]}}  {size:{widths[1]}}  {score}" for name, size, score in table]


__all__ = [
    "CHOSEN",
    "FAMILIES",
    "OWN_PHOTOS",
    "RECIPES",
    "SUPERVISED",
    "Recipe",
    "Setting",
    "check_field",
    "describe_recipe",
    "find_recipe",
    "list_recipes",
    "method_settings",
    "tested_side",
    "with_encoder",
    "with_init",
    "with_method",
]
