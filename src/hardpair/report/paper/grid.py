"""Tables as plain text in rows and columns, which the page and the terminal then both show."""

from collections.abc import Sequence
from dataclasses import dataclass

from hardpair.report.paper.entries import RANDOMS, Entry
from hardpair.report.paper.lines import EMPTY, Key, Line, gather, label, name_of, remarks
from hardpair.report.paper.published import TABLES, Table
from hardpair.report.paper.scale import Scale


@dataclass(frozen=True)
class Grid:
    """A table that is either published or measured, never both."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1  # so many columns hold words, the others figures
    best: frozenset[tuple[int, int]] = frozenset()  # row and column of what the paper prints in bold
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """One table of the paper, and what was measured for it."""

    title: str
    published: Grid
    measured: tuple[Grid, ...]


def parts(entries: Sequence[Entry]) -> list[Part]:
    """The seven tables in the paper's order."""
    return [
        Part(f"Table {table.number}. {table.title}", _published(table), tuple(_measured(table, entries)))
        for table in TABLES
    ]


def _published(table: Table) -> Grid:
    words = 1 + len(table.about)
    return Grid(
        title="In the paper, pretrained on ImageNet",
        headings=(table.corner, *table.about, *table.columns),
        rows=tuple((row.name, *row.about, *row.figures) for row in table.rows),
        words=words,
        best=frozenset(
            (place, words + column)
            for place, row in enumerate(table.rows)
            for column, bold in enumerate(row.best)
            if bold
        ),
        notes=table.notes,
    )


def _measured(table: Table, entries: Sequence[Entry]) -> list[Grid]:
    """A grid for each data set and scale, in the order in which the runs were given."""
    scales: dict[Scale, list[Entry]] = {}
    for entry in entries:
        if entry.place.table == table.number:
            scales.setdefault(entry.scale, []).append(entry)
    return [_of_scale(table, scale, some) for scale, some in scales.items()]


def _of_scale(table: Table, scale: Scale, entries: Sequence[Entry]) -> Grid:
    columns = _columns(table, entries)
    lines = gather(entries)
    wanted = _paper_rows(table, scale)
    rows = [row for key in wanted for row in _rows_of(key, lines, columns)]
    others = [line for line in lines if line.key not in wanted]
    rows += [_row(line, lines, columns) for line in sorted(others, key=lambda line: line.first.row in RANDOMS)]
    return Grid(
        title=scale.in_words(),
        headings=(table.corner, *columns),
        rows=tuple(rows),
        notes=(*([table.metrics] if table.metrics else []), *remarks(lines)),
    )


def _columns(table: Table, entries: Sequence[Entry]) -> tuple[str, ...]:
    """The paper's columns; among its values of τ also whichever others were measured."""
    if table.number != 7:
        return table.columns
    return tuple(sorted({*table.columns, *(entry.place.column for entry in entries)}, key=float, reverse=True))


def _paper_rows(table: Table, scale: Scale) -> list[Key]:
    """The rows that the paper has for this encoder, or has at all in the tables of a single one."""
    rows = [row for row in table.rows if not row.about or row.shape == scale.shape]
    return [(row.method, row.distilled) for row in rows]


def _rows_of(key: Key, lines: Sequence[Line], columns: Sequence[str]) -> list[tuple[str, ...]]:
    """What was measured for a row of the paper, or an empty row."""
    own = [_row(line, lines, columns) for line in lines if line.key == key]
    return own or [(name_of(*key), *(EMPTY for _ in columns))]


def _row(line: Line, lines: Sequence[Line], columns: Sequence[str]) -> tuple[str, ...]:
    return (label(line, lines), *map(line.cell, columns))
