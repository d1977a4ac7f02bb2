"""The comparison as a table: Markdown for a page, aligned text for a terminal."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hardpair.compare.results import Row
from hardpair.recipes import SUPERVISED

HEADINGS = (
    "method",
    "epochs",
    "forwards",
    "minutes",
    "linear top-1",
    "control",
    "gain",
    "knn top-1",
    "control",
    "loss",
)
NOTES = (
    "Forwards: what a run spends on an image over all epochs, in forwards of the encoder. Minutes: of training, a run. "
    "Control: a random encoder of the same shape. Gain: linear top-1 above it, in points. Loss: after the first "
    "epoch and at the end."
)

SEEN = "Supervised training has seen the labels of the validation images: its scores here measure nothing."


@dataclass(frozen=True)
class About:
    """What was held equal, and what it takes to do it again."""

    command: str
    date: str
    commit: str | None
    family: str
    methods: tuple[str, ...]
    conditions: dict[str, Any]  # what all methods share, by name
    data: dict[str, Any]  # name, number and hash of the training images
    on: str
    unit: str
    budgets: tuple[int, ...]
    seeds: int
    runs: int
    runs_done: int


def markdown(about: About, rows: Sequence[Row]) -> str:
    """The page: what was held equal, the table, how to repeat it."""
    headings, *lines = table_cells(about, rows)
    rule = ["---", *["---:"] * (len(headings) - 1)]
    table = [f"| {' | '.join(cells)} |" for cells in (headings, rule, *lines)]
    parts = ["# Methods under the same conditions", *in_words(about), "\n".join(table), NOTES, *overspent(about, rows)]
    return "\n\n".join([*parts, f"To repeat it:\n\n    {about.command}"]) + "\n"


def plain_text(about: About, rows: Sequence[Row]) -> str:
    """The same for a terminal of 120 columns."""
    lines = table_cells(about, rows)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = [
        "  ".join([cells[0].ljust(widths[0]), *map(str.rjust, cells[1:], widths[1:])]).rstrip() for cells in lines
    ]
    words = [part for line in in_words(about) for part in textwrap.wrap(line, 120)]
    return "\n".join([*words, "", aligned[0], "-" * len(aligned[0]), *aligned[1:], *overspent(about, rows)])


def title(about: About) -> str:
    """What was held equal, in a line."""
    shared = about.conditions
    stem = "" if shared["small_images"] else " with the stem for large images"
    equal = [
        f"{shared['encoder']} of width {shared['width']:g}{stem}",
        f"{about.data['images']:,} images of {about.data['name']} at {shared['image_size']} px",
        f"batch {shared['batch_size']}",
        f"{about.seeds} seed{'s' * (about.seeds > 1)}",
        f"{_budget(about)}",
    ]
    return ", ".join(equal)


def in_words(about: About) -> list[str]:
    """What was held equal, and when it was measured."""
    spread = "; ± is the sample standard deviation over seeds" if about.seeds > 1 else ""
    state = "" if about.runs_done == about.runs else f", {about.runs_done} of {about.runs} runs so far"
    source = f", commit {about.commit}" if about.commit else ""
    lines = [
        f"Equal for all: {title(about)}. Optimiser and settings: {about.family}/METHOD.",
        f"Judged on the {about.on} images, per cent{spread}. {about.date}{source}{state}.",
    ]
    return [*lines, SEEN] if SUPERVISED in about.methods and about.on == "validation" else lines


def overspent(about: About, rows: Sequence[Row]) -> list[str]:
    """Who could not keep to a budget of compute, because one epoch alone costs more."""
    dear = {row.method: row.cost for row in rows if about.unit == "forwards" and row.cost > row.budget}
    return [f"{method} is over its budget: one epoch costs {cost:.0f} forwards." for method, cost in dear.items()]


def table_cells(about: About, rows: Sequence[Row]) -> list[list[str]]:
    """The headings, then the cells of each row; the budget is told where there are several."""
    several = len(about.budgets) > 1
    lines = [list(HEADINGS), *([*_cells(row, about.seeds)] for row in rows)]
    budgets = ["budget", *(str(row.budget) for row in rows)]
    return [[line[0], budget, *line[1:]] if several else line for line, budget in zip(lines, budgets, strict=True)]


def _cells(row: Row, seeds: int) -> list[str]:
    done = len(row.results)
    return [
        row.method if done == seeds else f"{row.method} ({done} of {seeds} seeds)",
        str(row.epochs),
        f"{row.forwards:.0f}",
        f"{row.mean('minutes'):.1f}",
        _with_spread(row, "linear"),
        f"{row.mean('linear_control'):.1f}",
        f"{row.mean('linear') - row.mean('linear_control'):+.1f}",
        _with_spread(row, "knn"),
        f"{row.mean('knn_control'):.1f}",
        f"{row.mean('first_loss'):.3f} → {row.mean('last_loss'):.3f}",
    ]


def _with_spread(row: Row, name: str) -> str:
    spread = row.std(name)
    return f"{row.mean(name):.1f}" if spread is None else f"{row.mean(name):.1f} ± {spread:.1f}"


def _budget(about: About) -> str:
    *most, last = map(str, about.budgets)
    words = f"{', '.join(most)} or {last}" if most else last
    if about.unit == "epochs":
        return f"{words} epoch{'s' * (words != '1')}"
    return f"{words} forward{'s' * (words != '1')} an image"
