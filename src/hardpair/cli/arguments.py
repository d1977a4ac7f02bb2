"""Command line arguments → a dataclass, by tyro; a mistake is one line."""

import contextlib
import dataclasses
import io
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import tyro

from hardpair.errors import UserError, near

T = TypeVar("T")


def parse(kind: type[T], arguments: Sequence[str], program: str) -> T:
    """Read the arguments with tyro; a mistake becomes one line instead of tyro's box."""
    complaint = io.StringIO()
    more = f"({program} --help lists everything)"
    try:
        with contextlib.redirect_stderr(complaint):
            parsed, unknown = tyro.cli(
                kind,
                args=spelled_out(kind, arguments),
                prog=program,
                config=(tyro.conf.OmitArgPrefixes,),
                return_unknown_args=True,
            )
    except SystemExit as stop:
        if stop.code == 0:
            raise
        raise UserError(f"{message_in_box(complaint.getvalue())} {more}") from None
    if unknown:
        name = unknown[0].split("=")[0]
        raise UserError(f"{name}: there is no such option{_hint(name, options(kind))} {more}")
    return parsed


SYNONYMS = {
    "--lr": "--learning-rate",
    "--bs": "--batch-size",
    "--batch": "--batch-size",
    "--wd": "--weight-decay",
    "--optimizer": "--optimiser",
    "--backbone": "--encoder",
    "--arch": "--encoder",
    "--model": "--encoder",
    "--output": "--run",
    "--out-dir": "--run",
    "--output-dir": "--run",
    "--dataset": "--data",
    "--img-size": "--image-size",
    "--resolution": "--image-size",
    "--num-gpus": "--gpus",
}
"""What other tools call an option of ours."""


def _hint(name: str, known: Sequence[str]) -> str:
    meant = SYNONYMS.get(name.lower())
    return f"; it is {meant} here" if meant in known else near(name, known)


def spelled_out(kind: Any, arguments: Sequence[str]) -> list[str]:
    """--x and --no-x as tyro wants them where nothing said is a third choice (``bool | None``): --x True, --x False."""
    flags = [f"--{field.name.replace('_', '-')}" for field in _fields(kind) if field.type == bool | None]
    meaning = {**{flag: (flag, "True") for flag in flags}, **{f"--no-{flag[2:]}": (flag, "False") for flag in flags}}
    words: list[str] = []
    for word, after in itertools.zip_longest(arguments, arguments[1:], fillvalue=""):
        words += [word] if after in ("True", "False") else meaning.get(word, [word])
    return words


def message_in_box(box: str) -> str:
    """What tyro says first: between the title and the next rule, whether the box is drawn with lines or dashes."""
    if missing := re.findall(r"^\W {5}((?!hardpair)\S.*?) *\W$", box.partition("Missing from")[2], re.MULTILINE):
        return f"{', '.join(missing)}: must be given"  # names stand four letters in, what they mean further in
    lines = [line.strip("│╭╮╰╯─- ") for line in box.splitlines()]
    after_title = itertools.dropwhile(lambda line: not line, lines[1:])
    return " ".join(itertools.takewhile(bool, after_title)).removeprefix("Error parsing ").rstrip(".")


def options(kind: Any) -> list[str]:
    """Every option a (nested) dataclass stands for."""
    return [f"--{field.name.replace('_', '-')}" for field in _fields(kind)]


def _fields(kind: Any) -> Iterator[dataclasses.Field[Any]]:
    """Those of a dataclass, and of the dataclasses that are its fields."""
    for field in dataclasses.fields(kind):
        if dataclasses.is_dataclass(field.type):
            yield from _fields(field.type)
        else:
            yield field
