"""The comparison as a table: Markdown for a page, aligned text for a terminal."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hardpair.compare import words
from hardpair.compare.results import SEMI, Row
from hardpair.recipes import SUPERVISED
from hardpair.words import several

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

DIVERGED = "–"  # fine-tuning a random encoder may
FEW = "The whole network fine-tuned with a share of the labels (protocol semi), top-1:"
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
    labels: tuple[float, ...]  # shares of them that encoders were fine-tuned with
    on: str
    unit: str
    budgets: tuple[int, ...]
    seeds: int
    runs: int
    runs_done: int
    known: dict[str, int]  # earlier comparison → how many of the runs are from there


def markdown(about: About, rows: Sequence[Row]) -> str:
    """The page: what was held equal, the table, how to repeat it."""
    table = words.markdown_table(table_cells(about, rows))
    parts = ["# Methods under the same conditions", *in_words(about), table, NOTES, *overspent(about, rows)]
    if about.labels:
        parts += [FEW, words.markdown_table(few_labels_cells(about, rows))]
    return "\n\n".join([*parts, f"To repeat it:\n\n    {about.command}"]) + "\n"


def plain_text(about: About, rows: Sequence[Row]) -> str:
    """The same for a terminal of 120 columns."""
    table = words.aligned_table(table_cells(about, rows))
    few = ["", FEW, *words.aligned_table(few_labels_cells(about, rows))] if about.labels else []
    return "\n".join([*words.wrapped(in_words(about)), "", *table, *overspent(about, rows), *few])


def title(about: About) -> str:
    """What was held equal, in a line."""
    return ", ".join([*words.conditions(about.conditions, about.data, about.seeds), _budget(about)])


def in_words(about: About) -> list[str]:
    """What was held equal, and when it was measured."""
    state = words.so_far(about.runs_done, about.runs)
    lines = [
        f"Equal for all: {title(about)}. Optimiser and settings: {about.family}/METHOD.",
        words.measured(about.on, about.seeds, about.date, about.commit, state),
    ]
    if about.known:
        parts = [f"{several(count, 'run')} of {source}" for source, count in about.known.items()]
        lines.append(f"Known from earlier comparisons: {', '.join(parts)}.")
    return [*lines, SEEN] if SUPERVISED in about.methods and about.on == "validation" else lines


def overspent(about: About, rows: Sequence[Row]) -> list[str]:
    """Who could not keep to a budget of compute, because one epoch alone costs more."""
    dear = {row.method: row.cost for row in rows if about.unit == "forwards" and row.cost > row.budget}
    return [f"{method} is over its budget: one epoch costs {cost:.0f} forwards." for method, cost in dear.items()]


def table_cells(about: About, rows: Sequence[Row]) -> list[list[str]]:
    """The headings, then the cells of each row; the budget is told where there are several."""
    many = len(about.budgets) > 1
    lines = [list(HEADINGS), *([*_cells(row, about.seeds)] for row in rows)]
    budgets = ["budget", *(str(row.budget) for row in rows)]
    return [[line[0], budget, *line[1:]] if many else line for line, budget in zip(lines, budgets, strict=True)]


def few_labels_cells(about: About, rows: Sequence[Row]) -> list[list[str]]:
    """The same for encoders fine-tuned with few labels."""
    headings = [words for share in about.labels for words in (f"{share * 100:g} % of the labels", "control")]
    lines = [["method", "forwards", *headings]]
    for row in rows:
        figures = [row.semi(share) for share in about.labels]
        cells = [f"{both[name]:.1f}" if name in both else DIVERGED for both in figures for name in SEMI]
        if any(figures):
            lines.append([_name(row, about.seeds), f"{row.forwards:.0f}", *cells])
    return lines


def _name(row: Row, seeds: int) -> str:
    done = len(row.results)
    return row.method if done == seeds else f"{row.method} ({done} of {seeds} seeds)"


def _cells(row: Row, seeds: int) -> list[str]:
    return [
        _name(row, seeds),
        str(row.epochs),
        f"{row.forwards:.0f}",
        f"{row.mean('minutes'):.1f}",
        f"{row.figure('linear'):.1f}",
        f"{row.mean('linear_control'):.1f}",
        f"{row.mean('linear') - row.mean('linear_control'):+.1f}",
        f"{row.figure('knn'):.1f}",
        f"{row.mean('knn_control'):.1f}",
        f"{row.mean('first_loss'):.3f} → {row.mean('last_loss'):.3f}",
    ]


def _budget(about: About) -> str:
    *most, last = map(str, about.budgets)
    budgets = f"{', '.join(most)} or {last}" if most else last
    if about.unit == "epochs":
        return f"{budgets} epoch{'s' * (budgets != '1')}"
    return f"{budgets} forward{'s' * (budgets != '1')} per image"
