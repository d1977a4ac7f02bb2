"""Figures gathered into lines: one for each method, averaged over nothing but seeds."""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from hardpair.report.paper.entries import Entry, Facts

Key = tuple[str, bool]
"""A row: method, and whether distilled."""

EMPTY = "–"
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


def gather(entries: Sequence[Entry]) -> list[Line]:
    """The lines of one table, in the order in which the runs were given."""
    exact: dict[object, Line] = {}
    for entry in entries:
        identity = (entry.row, entry.distilled, entry.variant, entry.settings)
        line = exact.setdefault(identity, Line(entry))
        seeds = line.columns.setdefault(entry.place.column, defaultdict(list))
        seeds[entry.seed].append(entry.value)
        line.settings[entry.place.column] = entry.settings
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
    """The batches of lines that do not have the same one in all columns."""
    said: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        batches = _batches(line)
        if len(batches) > 1:
            words = ", ".join(f"{batch} in {' and '.join(columns)}" for batch, columns in batches.items())
            said[words].append(label(line, lines))
    return [f"Batches of {words}: {'; '.join(names)}." for words, names in said.items()]


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
