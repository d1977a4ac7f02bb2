"""Command line arguments → a dataclass, by tyro; a mistake is one line."""

import contextlib
import dataclasses
import io
import itertools
from collections.abc import Sequence
from typing import Any, TypeVar

import tyro

from hardpair.errors import UserError, nearest

T = TypeVar("T")


def parse(kind: type[T], arguments: Sequence[str], program: str) -> T:
    """Read the arguments with tyro; a mistake becomes one line instead of tyro's box."""
    complaint = io.StringIO()
    more = f"({program} --help lists everything)"
    try:
        with contextlib.redirect_stderr(complaint):
            parsed, unknown = tyro.cli(
                kind, args=list(arguments), prog=program, config=(tyro.conf.OmitArgPrefixes,), return_unknown_args=True
            )
    except SystemExit as stop:
        if stop.code == 0:
            raise
        raise UserError(f"{message_in_box(complaint.getvalue())} {more}") from None
    if unknown:
        name = unknown[0].split("=")[0]
        raise UserError(f"{name}: there is no such option{nearest(name, options(kind))} {more}")
    return parsed


def message_in_box(box: str) -> str:
    """What tyro says first: between the title and the next rule, whether the box is drawn with lines or dashes."""
    lines = [line.strip("│╭╮╰╯─- ") for line in box.splitlines()]
    after_title = itertools.dropwhile(lambda line: not line, lines[1:])
    return " ".join(itertools.takewhile(bool, after_title)).removeprefix("Error parsing ").rstrip(".")


def options(kind: Any) -> list[str]:
    """Every option a (nested) dataclass stands for."""
    names = []
    for field in dataclasses.fields(kind):
        nested = dataclasses.is_dataclass(field.type)
        names += options(field.type) if nested else [f"--{field.name.replace('_', '-')}"]
    return names
