"""The tables as aligned text, for the terminal."""

import textwrap
from collections.abc import Sequence

from hardpair.report.paper.grid import Grid, Part

COUNTS = "Measured cells: mean ± sample standard deviation over seeds (number of seeds), in per cent."
NONE = "No run given here has a test score for this table."
_WIDTH = 120
_NAME = 40


def plain_text(parts: Sequence[Part], notes: Sequence[str]) -> str:
    """Every table with its measured ones beneath, then what was left out."""
    blocks = [block for part in parts for block in _part(part)]
    return "\n\n".join([*blocks, COUNTS, *(["\n".join(notes)] if notes else [])])


def _part(part: Part) -> list[str]:
    measured = [_block(f"Measured. {grid.title}", grid) for grid in part.measured]
    return [
        f"{part.title}\n{'=' * len(part.title)}",
        _block(part.published.title, part.published),
        *(measured or [NONE]),
    ]


def _block(title: str, grid: Grid) -> str:
    return "\n".join(line for text in (title, _aligned(grid), *grid.notes) for line in _wrapped(text))


def _wrapped(text: str) -> list[str]:
    """Lines of a paragraph; a table keeps its own."""
    return text.split("\n") if "\n" in text else textwrap.wrap(text, _WIDTH)


def _aligned(grid: Grid) -> str:
    """Words to the left, figures to the right, a rule beneath the headings."""
    rows = [line for cells in (grid.headings, *grid.rows) for line in _folded(cells)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if place < grid.words else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        for cells in rows
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def _folded(cells: tuple[str, ...]) -> list[tuple[str, ...]]:
    """A row whose name is long goes on below, so that it does not push the figures off the screen."""
    first, *more = textwrap.wrap(cells[0], _NAME) or [""]
    return [(first, *cells[1:]), *((f"  {rest}", *("" for _ in cells[1:])) for rest in more)]
