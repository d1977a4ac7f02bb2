"""A recipe from the command line: a name, then any field of the recipe or setting of its method."""

import dataclasses
import shlex
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from hardpair.cli.arguments import parse
from hardpair.errors import UserError
from hardpair.methods import METHODS, resolve_method
from hardpair.recipes import (
    CHOSEN,
    FAMILIES,
    OWN_PHOTOS,
    Recipe,
    find_recipe,
    method_settings,
    with_encoder,
    with_init,
    with_method,
)

T = TypeVar("T")

BASIC = ("data", "hours", "image_size", "epochs", "run", "resume")
"""What a newcomer needs; help shows these first."""


def parse_recipe(arguments: Sequence[str], kind: type[T], verb: str, purpose: str) -> tuple[Recipe, T]:
    """The recipe that ``[RECIPE] [--field value …]`` describes, and the verb's own options, an instance of ``kind``."""
    _, recipe, rest = _named(arguments)
    if init := _given(rest, "--init"):
        recipe = with_init(recipe, init)
    if encoder := _given(rest, "--encoder"):
        recipe = with_encoder(recipe, encoder)
    parsed = vars(parse(_command(recipe, kind, verb, purpose), rest, f"hardpair {verb} [RECIPE]"))
    settings = dataclasses.asdict(part) if (part := parsed.pop(f"{recipe.method}_settings", None)) else {}
    values = {name: value for part in parsed.values() for name, value in vars(part).items()}
    fields = {field.name: values.pop(field.name) for field in _recipe_fields()}
    return dataclasses.replace(recipe, **fields, settings=settings), kind(**values)


def _named(arguments: Sequence[str]) -> tuple[str, Recipe, list[str]]:
    """The name that was typed, its recipe with the method that was given, and the other words."""
    typed = bool(arguments) and not arguments[0].startswith("-")
    usual = OWN_PHOTOS if "data" in given_names(arguments) else "demo"
    name, rest = (arguments[0], list(arguments[1:])) if typed else (usual, list(arguments))
    if given := _given(rest, "--method"):  # FILE.py:CLASS becomes CLASS, which METHODS then has
        method = resolve_method(given)
        rest = [word.replace(given, method) if word in (given, f"--method={given}") else word for word in rest]
    recipe = dataclasses.replace(find_recipe(name), name=name)  # what was typed is what the run is called
    method = _given(rest, "--method") or recipe.method
    if method != recipe.method:
        recipe = with_method(recipe, method)
    return name, recipe, rest


def pretrain_command(arguments: Sequence[str], recipe: Recipe, *, processes: int = 1, shard: bool = False) -> str:
    """The command that trains this recipe, which these arguments, and perhaps more epochs or fewer, describe."""
    name, base, _ = _named(arguments)
    start = ["hardpair"] if processes == 1 else ["torchrun", "--nproc-per-node", str(processes), "-m", "hardpair", "--"]
    words = [*start, "pretrain", name]
    if method := _given(arguments, "--method"):
        words += ["--method", method]
    theirs, before = ({**r.to_json(), **r.to_json()["settings"]} for r in (recipe, base))
    for field in [*(field.name for field in _recipe_fields()), *method_settings(recipe.method)]:
        chosen = name == OWN_PHOTOS and field in CHOSEN  # else pretrain would choose once more
        if field != "epochs" and (chosen or theirs[field] != before[field]):
            words += _option(field, theirs[field])
    return shlex.join([*words, *["--shard"] * shard, *_option("epochs", recipe.epochs)])


def _option(field: str, value: object) -> list[str]:
    name = field.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    return [f"--{name}", str(value)]


def given_names(arguments: Sequence[str]) -> set[str]:
    """Names of the fields and settings that were given: image_size for --image-size, --no-sk is sk."""
    words = [word.partition("=")[0].removeprefix("--") for word in arguments if word.startswith("--")]
    return {word.removeprefix("no-").replace("-", "_") for word in words}


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


def _command(recipe: Recipe, kind: type[Any], verb: str, purpose: str) -> type[Any]:
    """A dataclass of what may be given, in the groups that help shows, with the recipe's values as defaults."""
    values = recipe.to_json()
    fields = [(field.name, field.type, values[field.name]) for field in _recipe_fields()]
    own = [(field.name, field.type, field.default) for field in dataclasses.fields(kind)]
    settings = [(name, kind, values["settings"][name]) for name, (kind, _) in method_settings(recipe.method).items()]
    arguments = f"Args:\n{_described(Recipe)}\n{_described(kind)}"
    method = METHODS[recipe.method].__doc__ if recipe.method in METHODS else ""
    groups = {
        "basic": ([field for field in (*fields, *own) if field[0] in BASIC], f"Start with these.\n\n{arguments}"),
        "training": ([field for field in fields if field[0] not in BASIC], f"{_first(Recipe)}\n\n{arguments}"),
        f"{recipe.method}_settings": (settings, method),
        "machine": ([field for field in own if field[0] not in BASIC], f"{_first(kind)}\n\n{arguments}"),
    }
    parts = [(name, _as_dataclass(name, content, doc)) for name, (content, doc) in groups.items() if content]
    command = dataclasses.make_dataclass(
        verb.capitalize(), [(name, part, dataclasses.field(default_factory=part)) for name, part in parts], frozen=True
    )
    command.__doc__ = (
        f"{purpose}\n\n"
        f"RECIPE is {', '.join(f'{family}/METHOD' for family in FAMILIES)} or paper. Without one: demo/hnpm "
        "or, with --data, a recipe chosen for these photos and this machine. "
        f"`hardpair recipes` lists them. The values below are those of {recipe.name}; any can be given another value."
    )
    return command


def _recipe_fields() -> list[dataclasses.Field[Any]]:
    return [field for field in dataclasses.fields(Recipe) if field.name not in ("name", "settings")]


def _as_dataclass(name: str, fields: Iterable[tuple[str, Any, Any]], doc: str | None) -> type[Any]:
    content = [(field, kind, dataclasses.field(default=default)) for field, kind, default in fields]
    made = dataclasses.make_dataclass(name, content, frozen=True)
    made.__doc__ = doc
    return made


def _first(kind: type[Any]) -> str:
    return (kind.__doc__ or "").partition("\n")[0]


def _described(kind: type[Any]) -> str:
    """The lines of the docstring that describe the fields."""
    return (kind.__doc__ or "").partition("Args:\n")[2].rstrip()
