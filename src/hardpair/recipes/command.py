"""A recipe from the command line: a name, then any field of the recipe or setting of its method."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hardpair.errors import UserError
from hardpair.methods import METHODS, resolve_method
from hardpair.recipes import FAMILIES, SUPERVISED, Recipe, find_recipe, method_settings

P = TypeVar("P")
Parser = Callable[[type[Any], Sequence[str], str], Any]


PURPOSES = {"pretrain": "Train an encoder without labels.", "plan": "What a training will need, before it begins."}


def parse_recipe(
    arguments: Sequence[str], place: type[P], parse: Parser, *, verb: str = "pretrain"
) -> tuple[Recipe, P]:
    """The recipe that ``[RECIPE] [--field value …]`` describes, and where to run it (an instance of ``place``)."""
    named = bool(arguments) and not arguments[0].startswith("-")
    name, rest = (arguments[0], arguments[1:]) if named else ("demo", arguments)
    if given := _given(rest, "--method"):  # FILE.py:CLASS becomes CLASS, which METHODS then has
        method = resolve_method(given)
        rest = [word.replace(given, method) if word in (given, f"--method={given}") else word for word in rest]
    recipe = dataclasses.replace(find_recipe(name), name=name)  # what was typed is what the run is called
    method = _given(rest, "--method") or recipe.method
    if method != recipe.method:
        recipe = with_method(recipe, method)
    command = parse(_command(recipe, place, verb), rest, f"hardpair {verb} [RECIPE]")
    chosen = dataclasses.asdict(command.recipe)
    return dataclasses.replace(recipe, **chosen, settings=dataclasses.asdict(command.settings)), command.place


def with_method(recipe: Recipe, method: str) -> Recipe:
    """The same family's recipe of another method; else the same recipe with that method's defaults."""
    family = recipe.name.split("/")[0]
    if family in FAMILIES and method in [*METHODS, SUPERVISED]:
        return find_recipe(f"{family}/{method}")
    return dataclasses.replace(recipe, method=method, settings={})


def _given(arguments: Sequence[str], option: str) -> str | None:
    """The value of an option, before the arguments are parsed: the method decides which settings there are."""
    for index, word in enumerate(arguments):
        if word.startswith(f"{option}="):
            return word.removeprefix(f"{option}=")
        if word == option:
            if index + 1 == len(arguments):
                raise UserError(f"{option}: needs a value")
            return arguments[index + 1]
    return None


def _command(recipe: Recipe, place: type[Any], verb: str) -> type[Any]:
    """A dataclass whose fields are what may be given, with the recipe's values as defaults."""
    values = recipe.to_json()
    fields = {f.name: f.type for f in dataclasses.fields(Recipe) if f.name not in ("name", "settings")}
    kinds = {name: kind for name, (kind, _) in method_settings(recipe.method).items()}
    parts = [
        ("recipe", _as_dataclass("Recipe", fields, values, Recipe.__doc__)),
        ("settings", _as_dataclass(recipe.method, kinds, values["settings"], _method_doc(recipe.method))),
        ("place", place),
    ]
    command = dataclasses.make_dataclass(
        verb.capitalize(), [(name, kind, dataclasses.field(default_factory=kind)) for name, kind in parts], frozen=True
    )
    command.__doc__ = (
        f"{PURPOSES[verb]}\n\n"
        f"RECIPE is {', '.join(f'{family}/METHOD' for family in FAMILIES)} or paper; demo/hnpm when not given. "
        f"`hardpair recipes` lists them. The values below are those of {recipe.name}; any can be given another value."
    )
    return command


def _as_dataclass(name: str, kinds: dict[str, Any], values: dict[str, Any], doc: str | None) -> type[Any]:
    fields = [(key, kind, dataclasses.field(default=values[key])) for key, kind in kinds.items()]
    made = dataclasses.make_dataclass(name, fields, frozen=True)
    made.__doc__ = doc
    return made


def _method_doc(method: str) -> str | None:
    return METHODS[method].__doc__ if method in METHODS else None
