"""What pages say of runs under the same conditions, and tables as text."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from hardpair.words import several

Lines = Sequence[Sequence[str]]
"""The headings of a table, then the cells of each row."""


def markdown_table(lines: Lines) -> str:
    """As Markdown; all but the first column stand at the right."""
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


def wrapped(lines: Sequence[str]) -> list[str]:
    """For a terminal of 120 columns."""
    return [part for line in lines for part in textwrap.wrap(line, 120)]


def conditions(shared: Mapping[str, Any], data: Mapping[str, Any], seeds: int) -> list[str]:
    """Encoder, images, batch and seeds."""
    kernels = " with selective kernels" if shared.get("sk") else ""
    stem = "" if shared["small_images"] else " with the stem for large images"
    smaller = f" (views of {shared['view_size'] * 100:.0f} % of it)" if shared.get("view_size", 1) < 1 else ""
    return [
        f"{shared['encoder']} of width {shared['width']:g}{kernels}{stem}",
        f"{data['images']:,} images of {data['name']} at {shared['image_size']} px{smaller}",
        _batch(shared["batch_size"]),
        several(seeds, "seed"),
    ]


def _batch(of_all: int | Mapping[str, int]) -> str:
    """One number, or those of each method."""
    sizes = {"all": of_all} if isinstance(of_all, int) else of_all
    groups = {size: [name for name in sizes if sizes[name] == size] for size in sorted(set(sizes.values()))}
    if len(groups) == 1:
        return f"batch {next(iter(groups))}"
    return "batches of " + " and ".join(f"{size} ({', '.join(names)})" for size, names in groups.items())


def measured(on: str, seeds: int, date: str, commit: str | None, state: str) -> str:
    """On which images, when and by which code."""
    spread = "; ± is the sample standard deviation over seeds" if seeds > 1 else ""
    source = f", commit {commit}" if commit else ""
    return f"Judged on the {on} images, per cent{spread}. {date}{source}{f', {state}' if state else ''}."


def so_far(done: int, runs: int) -> str:
    """How many runs are done; nothing where all are."""
    return "" if done == runs else f"{done} of {runs} runs so far"
