"""A sweep as a table: what was held equal, in words; Markdown for a page, aligned text for a terminal."""

import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hardpair.files import commit, write_atomically
from hardpair.sweep.options import Conditions
from hardpair.sweep.results import Summary
from hardpair.text import several

Lines = Sequence[Sequence[str]]
"""The headings of a table, then the cells of each row."""
Column = tuple[str, Callable[[Summary], str]]
"""Its heading, and its cell in the row of a variant."""
Columns = Sequence[Column]
LINEAR_COLUMNS: Columns = (
    ("linear top-1", lambda row: f"{row.figure('linear'):.1f}"),
    ("control", lambda row: f"{row.mean('linear_control'):.1f}"),
)
KNN_COLUMNS: Columns = (
    ("knn top-1", lambda row: f"{row.figure('knn'):.1f}"),
    ("control", lambda row: f"{row.mean('knn_control'):.1f}"),
)


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What was held equal in a sweep, and what it takes to repeat it."""

    command: str
    date: str
    commit: str | None
    conditions: dict[str, Any]  # what all runs share, by name; the batch size may be each method's own
    data: dict[str, Any]  # name, number and hash of the training images
    on: str
    seeds: int
    runs: int
    runs_done: int

    @property
    def equal(self) -> str:
        """Encoder, images, batch and seeds."""
        shared = self.conditions
        kernels = " with selective kernels" if shared.get("sk") else ""
        stem = "" if shared["small_images"] else " with the stem for large images"
        smaller = f" (views of {shared['view_size'] * 100:.0f} % of it)" if shared.get("view_size", 1) < 1 else ""
        return (
            f"{shared['encoder']} of width {shared['width']:g}{kernels}{stem}, "
            f"{self.data['images']:,} images of {self.data['name']} at {shared['image_size']} px{smaller}, "
            f"{_batch(shared['batch_size'])}, {several(self.seeds, 'seed')}"
        )

    @property
    def state(self) -> str:
        """How many runs are done; nothing where all are."""
        return "" if self.runs_done == self.runs else f"{self.runs_done} of {self.runs} runs so far"

    @property
    def measured(self) -> str:
        """On which images, when and by which code."""
        spread = "; ± is the sample standard deviation over seeds" if self.seeds > 1 else ""
        source = f", commit {self.commit}" if self.commit else ""
        state = f", {self.state}" if self.state else ""
        return f"Evaluated on the {self.on} images, per cent{spread}. {self.date}{source}{state}."


def setup_now(options: Conditions, command: str, data: dict[str, Any], runs: int, runs_done: int) -> dict[str, Any]:
    """The fields of a `Setup` that do not depend on what is swept; all but the conditions."""
    when = {"date": datetime.now(UTC).strftime("%Y-%m-%d"), "commit": commit()}
    counts = {"seeds": options.seeds, "runs": runs, "runs_done": runs_done}
    return {"command": command, **when, "data": data, "on": options.on, **counts}


def _batch(of_all: int | Mapping[str, int]) -> str:
    """One number, or those of each method."""
    sizes = {"all": of_all} if isinstance(of_all, int) else of_all
    groups = {size: [name for name in sizes if sizes[name] == size] for size in sorted(set(sizes.values()))}
    if len(groups) == 1:
        return f"batch {next(iter(groups))}"
    return "batches of " + " and ".join(f"{size} ({', '.join(names)})" for size, names in groups.items())


@dataclass(frozen=True)
class Page:
    """A table with what has to be known to read it."""

    title: str
    intro: Sequence[str]
    table: Lines
    legend: str  # what the columns mean; left out on a terminal
    notes: Sequence[str]
    command: str
    more: tuple[str, Lines] | None = None  # a second table, below its heading

    def markdown(self) -> str:
        """For a file."""
        parts = [f"# {self.title}", *self.intro, markdown_table(self.table), self.legend, *self.notes]
        if self.more is not None:
            parts += [self.more[0], markdown_table(self.more[1])]
        return "\n\n".join([*parts, f"To repeat it:\n\n    {self.command}"]) + "\n"

    def text(self) -> str:
        """For a terminal of 120 columns."""
        lines = [*_wrapped(self.intro), "", *aligned_table(self.table)]
        if self.notes:
            lines += ["", *_wrapped(self.notes)]
        if self.more is not None:
            lines += ["", self.more[0], *aligned_table(self.more[1])]
        return "\n".join(lines)


@dataclass(frozen=True)
class Output:
    """What a sweep leaves: all values as JSON, the page, and the figure."""

    values: tuple[Path, dict[str, Any]]
    page: tuple[Path, Page]
    figure: tuple[Path, Callable[[], dict[str, bytes]]]  # suffix → content

    def write(self) -> None:
        """All files."""
        (values, content), (page, words), (figure, draw) = self.values, self.page, self.figure
        values.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(values, json.dumps(content, indent=2).encode())
        write_atomically(page, words.markdown().encode())
        for kind, picture in draw().items():
            write_atomically(figure.with_suffix(f".{kind}"), picture)

    def say(self) -> None:
        """The page on a terminal, and where the files are."""
        print(f"\n{self.page[1].text()}\n")
        print(f"table: {self.page[0]}  figure: {self.figure[0]}")


def table_of(rows: Sequence[Summary], columns: Columns) -> Lines:
    """A line for each variant."""
    return [[heading for heading, _ in columns], *([cell(row) for _, cell in columns] for row in rows)]


def markdown_table(lines: Lines) -> str:
    """As Markdown; all but the first column are aligned right."""
    headings, *rows = lines
    rule = ["---", *["---:"] * (len(headings) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headings, rule, *rows))


def aligned_table(lines: Lines) -> list[str]:
    """As lines for a terminal."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = [
        "  ".join([cells[0].ljust(widths[0]), *map(str.rjust, cells[1:], widths[1:])]).rstrip() for cells in lines
    ]
    return [aligned[0], "-" * len(aligned[0]), *aligned[1:]]


def _wrapped(lines: Sequence[str]) -> list[str]:
    return [part for line in lines for part in textwrap.wrap(line, 120)]
