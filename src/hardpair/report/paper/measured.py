"""The tables to show: what the paper published, and what was measured, averaged over nothing but seeds."""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from hardpair.report.paper.entries import RANDOMS, STREAM, Entry, Facts, Scale
from hardpair.report.paper.published import TABLES, PublishedTable

Key = tuple[str, bool]
"""A row: method, and whether distilled."""

EMPTY = "–"
_HALVES = "two streams of half the width, 12 M parameters; the paper's row has two whole ones, 47 M."
_LONGEST = 40  # of a value in the name of a line: a grid of strengths would fill the page
_TELLING = (" preset", " form")  # settings of protocols that stand for all the others
_IMAGES = (" images", " subset")  # which were used: others in each column
_BATCH = " batch_size"  # of few images it is cut, so it may follow from the column
_NAMES = {
    "hnpm": "Ours (HNPM)",
    "cpc": "CPCv2",
    "cmc": "CMC",
    "simclr": "SimCLR",
    "moco": "MoCov2",
    "simclrv2": "SimCLRv2",
    "infomin": "InfoMin Aug.",
    "byol": "BYOL",
    "simsiam": "SimSiam",
    "instdisc": "InstDisc",
    "supervised": "Supervised",
}


@dataclass(frozen=True)
class ShownTable:
    """A table that is either published or measured, never both."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1  # so many columns hold words, the others figures
    best: frozenset[tuple[int, int]] = frozenset()  # row and column of what the paper prints in bold
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PaperTable:
    """One table of the paper, and what was measured for it."""

    title: str
    published: ShownTable
    measured: tuple[ShownTable, ...]


@dataclass
class Line:
    """A row of a measured table: the first of its figures says what they all are."""

    first: Entry
    columns: dict[str, dict[str, list[float]]] = field(default_factory=dict)  # column → seed → figures
    settings: dict[str, Facts] = field(default_factory=dict)  # column → those of its protocol

    @property
    def key(self) -> Key:
        """Which row of the paper it would be."""
        return self.first.row, self.first.distilled

    @property
    def facts(self) -> dict[str, str]:
        """All that may tell it from another line of the same method."""
        return dict((*self.first.variant, *self.first.settings))

    def cell(self, column: str) -> str:
        """Mean ± sample standard deviation over seeds (number of seeds); a seed that was measured twice counts once."""
        values = [statistics.fmean(figures) for figures in self.columns.get(column, {}).values()]
        if not values:
            return EMPTY
        spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
        return f"{statistics.fmean(values):.1f}{spread} ({len(values)})"


def paper_tables(entries: Sequence[Entry]) -> list[PaperTable]:
    """The seven tables in the paper's order."""
    return [
        PaperTable(f"Table {table.number}. {table.title}", _as_published(table), tuple(_measured(table, entries)))
        for table in TABLES
    ]


def _as_published(table: PublishedTable) -> ShownTable:
    words = 1 + len(table.about)
    return ShownTable(
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


def _measured(table: PublishedTable, entries: Sequence[Entry]) -> list[ShownTable]:
    """A grid for each data set and scale, in the order in which the runs were given."""
    scales: dict[Scale, list[Entry]] = {}
    for entry in entries:
        if entry.cell.table == table.number:
            scales.setdefault(entry.scale, []).append(entry)
    return [_of_scale(table, scale, some) for scale, some in scales.items()]


def _of_scale(table: PublishedTable, scale: Scale, entries: Sequence[Entry]) -> ShownTable:
    columns = _columns(table, entries)
    lines = gather(entries)
    wanted = _paper_rows(table, scale)
    rows = [row for key in wanted for row in _rows_of(key, lines, columns)]
    others = [line for line in lines if line.key not in wanted]
    rows += [_row(line, lines, columns) for line in sorted(others, key=lambda line: line.first.row in RANDOMS)]
    return ShownTable(
        title=scale.in_words(),
        headings=(table.corner, *columns),
        rows=tuple(rows),
        notes=(*([table.metrics] if table.metrics else []), *remarks(lines)),
    )


def _columns(table: PublishedTable, entries: Sequence[Entry]) -> tuple[str, ...]:
    """The paper's columns; among its values of τ also whichever others were measured."""
    if table.number != 7:
        return table.columns
    return tuple(sorted({*table.columns, *(entry.cell.column for entry in entries)}, key=float, reverse=True))


def _paper_rows(table: PublishedTable, scale: Scale) -> list[Key]:
    """The rows that the paper has for this encoder, or has at all in the tables of a single one."""
    rows = [row for row in table.rows if not row.about or row.shape == scale.shape]
    return [(row.method, row.distilled) for row in rows]


def _rows_of(key: Key, lines: Sequence[Line], columns: Sequence[str]) -> list[tuple[str, ...]]:
    """What was measured for a row of the paper, or an empty row."""
    own = [_row(line, lines, columns) for line in lines if line.key == key]
    return own or [(name_of(*key), *(EMPTY for _ in columns))]


def _row(line: Line, lines: Sequence[Line], columns: Sequence[str]) -> tuple[str, ...]:
    return (label(line, lines), *map(line.cell, columns))


def gather(entries: Sequence[Entry]) -> list[Line]:
    """The lines of one table, in the order in which the runs were given."""
    exact: dict[object, Line] = {}
    for entry in entries:
        identity = (entry.row, entry.distilled, entry.variant, entry.settings)
        line = exact.setdefault(identity, Line(entry))
        seeds = line.columns.setdefault(entry.cell.column, defaultdict(list))
        seeds[entry.seed].append(entry.value)
        line.settings[entry.cell.column] = entry.settings
    lines: list[Line] = []
    for line in exact.values():
        _join(lines, line)
    return lines


def _join(lines: list[Line], line: Line) -> None:
    """Add a line, or fill the gaps of one like it: each column has images of its own."""
    for other in lines:
        if _alike(other.first) == _alike(line.first) and not other.columns.keys() & line.columns.keys():
            other.columns |= line.columns
            other.settings |= line.settings
            return
    lines.append(line)


def _alike(entry: Entry) -> object:
    """All that a row must agree in; a batch may differ, and `remarks` then says so."""
    settings = [fact for fact in entry.settings if not fact[0].endswith((*_IMAGES, _BATCH))]
    return entry.row, entry.distilled, entry.variant, settings


def remarks(lines: Sequence[Line]) -> list[str]:
    """The batches of lines that do not have the same one in all columns, and streams that are half of the paper's."""
    said: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        batches = _batches(line)
        if len(batches) > 1:
            words = ", ".join(f"{batch} in {' and '.join(columns)}" for batch, columns in batches.items())
            said[words].append(label(line, lines))
    mixed = [f"Batches of {words}: {'; '.join(names)}." for words, names in said.items()]
    return [*mixed, *(f"{label(line, lines)}: {_HALVES}" for line in lines if _has_halves(line))]


def _has_halves(line: Line) -> bool:
    """Whether it stands in the row of an encoder whose streams are whole in the paper."""
    shape = line.first.scale.shape
    return line.first.row not in RANDOMS and shape == ("resnet50", 1.0, False) and line.facts.get(STREAM) == "0.5"


def _batches(line: Line) -> dict[str, list[str]]:
    """Size → columns."""
    found: dict[str, list[str]] = defaultdict(list)
    for column, settings in line.settings.items():
        for batch in (value for name, value in settings if name.endswith(_BATCH)):
            found[batch].append(column)
    return found


def name_of(method: str, distilled: bool) -> str:
    """A method as measured tables call it."""
    return _NAMES.get(method, method) + " distilled" * distilled


def label(line: Line, lines: Sequence[Line]) -> str:
    """The method, and where it has several lines what tells this one from the others."""
    name = name_of(*line.key)
    peers = [other for other in lines if other.key == line.key]
    if len(peers) > 1 and len({peer.first.recipe for peer in peers}) == len(peers):
        return f"{name}, {line.first.recipe}"
    facts = line.facts
    shown = [f"{key.replace('_', ' ')} {_short(facts[key])}" for key in _differing(peers) if key in facts]
    return ", ".join([name, *shown])


def _differing(peers: Sequence[Line]) -> list[str]:
    """What the lines do not agree in; a setting that stands for all of it is enough."""
    keys = dict.fromkeys(key for peer in peers for key in peer.facts)
    differing = [key for key in keys if len({peer.facts.get(key) for peer in peers}) > 1]
    same_recipe = len({peer.first.variant for peer in peers}) == 1
    telling = [key for key in differing if key.endswith(_TELLING) and same_recipe]
    enough = [key for key in telling if len({peer.facts.get(key) for peer in peers}) == len(peers)]
    chosen = [key for key in differing if not key.endswith(_IMAGES)]
    told = {tuple(peer.facts.get(key) for key in chosen) for peer in peers}
    return enough[:1] or (chosen if len(told) == len(peers) else differing)


def _short(value: str) -> str:
    return value if len(value) <= _LONGEST else f"{value[: _LONGEST - 1]}…"
