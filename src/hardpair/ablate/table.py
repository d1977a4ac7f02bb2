"""The ablation as a table: Markdown for a page, aligned text for a terminal."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hardpair.ablate.options import Which
from hardpair.ablate.paper import FIGURE_2, PUBLISHED, published, verdict
from hardpair.ablate.results import Row
from hardpair.compare import words
from hardpair.words import several

HEADINGS = ("variant", "seeds", "linear top-1", "control", "knn top-1", "control", "loss", "mined", "rank")
NOTES = (
    "Control: a random encoder of the same shape. Loss, mined (share of the pairs of a batch) and rank (effective, of "
    "the features): as logged last. Two variants count as told apart where their difference, seed by seed, has a mean "
    "above its standard deviation."
)
OTHER_PAIRS = (
    "The loss is not the same sum for both: without mining it has more negative pairs, which alone makes it lower."
)
TITLES: dict[Which, str] = {
    "tau": "Ablation: how much of the old student is kept (tau)",
    "mining": "Ablation: hard negative pairs, or all pairs",
    "gradient": "Ablation: the student's gradient blocked, or not",
}


@dataclass(frozen=True)
class About:
    """What was held equal, and what it takes to do it again."""

    which: Which
    command: str
    date: str
    commit: str | None
    recipe: str
    conditions: dict[str, Any]  # what all variants share, by name
    data: dict[str, Any]  # name, number and hash of the training images
    epochs: int
    on: str
    seeds: int
    runs: int
    runs_done: int


def markdown(about: About, rows: Sequence[Row]) -> str:
    """The page: what was held equal, the table, what it says, how to repeat it."""
    table = words.markdown_table(table_cells(about, rows))
    parts = [f"# {TITLES[about.which]}", *in_words(about), table, *finding(about, rows), NOTES, *notes(about, rows)]
    return "\n\n".join([*parts, f"To repeat it:\n\n    {about.command}"]) + "\n"


def plain_text(about: About, rows: Sequence[Row]) -> str:
    """The same for a terminal of 120 columns."""
    table = words.aligned_table(table_cells(about, rows))
    below = words.wrapped([*notes(about, rows), *finding(about, rows)])
    return "\n".join([*words.wrapped(in_words(about)), "", *table, "", *below])


def title(about: About) -> str:
    """What was held equal, in a line."""
    equal = words.conditions(about.conditions, about.data, about.seeds)
    return ", ".join([*equal, several(about.epochs, "epoch")])


def in_words(about: About) -> list[str]:
    """What was held equal, and when it was measured."""
    state = words.so_far(about.runs_done, about.runs)
    return [
        f"Equal for all: {title(about)}. All other settings: {about.recipe}.",
        words.measured(about.on, about.seeds, about.date, about.commit, state),
    ]


def finding(about: About, rows: Sequence[Row]) -> list[str]:
    """Whether the paper's order holds, once there is nothing left to run."""
    return [verdict(about.which, rows)] if about.runs_done == about.runs else []


def notes(about: About, rows: Sequence[Row]) -> list[str]:
    """What has to be known to read the figures rightly."""
    known = {"tau": [], "mining": [FIGURE_2, OTHER_PAIRS], "gradient": [FIGURE_2]}[about.which]
    return [*known, *(_missed(row) for row in rows if _missing(row))]


def table_cells(about: About, rows: Sequence[Row]) -> list[list[str]]:
    """The headings, then the cells of each row; the published figures where there are any."""
    figures = published(about.which)
    headings = [*HEADINGS, PUBLISHED] if figures else list(HEADINGS)
    return [headings, *([*_cells(row), *([figures[row.variant.name]] if figures else [])] for row in rows)]


def _cells(row: Row) -> list[str]:
    return [
        f"{row.variant.label}{' (base)' * row.variant.is_base}",
        str(len(row.results)),
        f"{row.figure('linear'):.1f}",
        f"{row.figure('linear_control').mean:.1f}",
        f"{row.figure('knn'):.1f}",
        f"{row.figure('knn_control').mean:.1f}",
        f"{row.figure('loss').mean:.3f}",
        f"{row.figure('mined').mean:.1%}",
        f"{row.figure('rank').mean:.1f}",
    ]


def _missing(row: Row) -> list[int]:
    judged = {epoch for epoch, _ in row.curve("linear")}
    return [epoch for epoch in row.asked if epoch not in judged]


def _missed(row: Row) -> str:
    """A finished run cannot be judged as it was earlier."""
    epochs = ", ".join(map(str, _missing(row)))
    return f"{row.variant.label}: some run had been trained further before it was to be judged after epoch {epochs}."
