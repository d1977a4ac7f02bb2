"""The page of `hardpair clean`: pictures that are the same side by side, likely label errors, outliers."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardpair.embeddings.findings import Catalogue, Cleaned, Group
from hardpair.embeddings.pictures import Pictures
from hardpair.embeddings.sheet import SIDE, Card, write_sheet
from hardpair.embeddings.sheet import Group as Sheet
from hardpair.text import several

GROUPS, OF_EACH = 120, 8  # groups shown, and pictures of each
ODD = 60  # outliers, and likely label errors
NAMES = {
    "exact": "Equal files",
    "near": "The same",
    "similar": "Similar by vectors alone",
}
Pixels = NDArray[np.uint8] | None


def write_page(target: Path, found: Cleaned, pictures: Sequence[Pictures]) -> Path:
    """Write it; pictures that are gone are shown as gone."""
    groups = found.groups[:GROUPS]
    labels, odd = found.labels.likely[:ODD].tolist(), found.outliers[:ODD].tolist()
    wanted = [group.rows[place] for group in groups for place in _shown(found.images, group)]
    pixels = _read([*wanted, *labels, *odd], found.images, pictures)
    sheets = [*_duplicates(found, groups, pixels), *_labels(found, labels, pixels), *_outliers(found, odd, pixels)]
    lede = f"{several(len(found.images.own), 'image')}. Nothing was deleted; clean.csv lists everything."
    if found.notes:
        lede += " " + " ".join(found.notes)
    if len(found.groups) > GROUPS:
        lede += f" The page shows {GROUPS} of {len(found.groups):,} groups."
    return write_sheet(target, _title(found), lede, sheets, kicker="hardpair clean", columns=True)


def _title(found: Cleaned) -> str:
    if not found.groups and not len(found.labels.likely) and not len(found.outliers):
        return "Nothing to clean"
    parts = [several(len(found.groups), "group") + " of duplicates", several(len(found.leaks), "leak")]
    parts += [several(len(found.labels.likely), "doubtful label"), several(len(found.outliers), "outlier")]
    return ", ".join(parts)


def _read(rows: Sequence[int], images: Catalogue, pictures: Sequence[Pictures]) -> dict[int, Pixels]:
    """The pictures of both embeddings, by row of the catalogue."""
    pixels: dict[int, Pixels] = dict.fromkeys(rows)
    first = 0
    for source in pictures:
        inner = sorted({row - first for row in rows if first <= row < first + len(source.embedding)})
        squares = source.squares(inner, SIDE) if inner else []
        pixels |= {row + first: square for row, square in zip(inner, squares, strict=True)}
        first += len(images.own)
    return pixels


def _duplicates(found: Cleaned, groups: Sequence[Group], pixels: dict[int, Pixels]) -> Iterator[Sheet]:
    for number, group in enumerate(groups, 1):
        title = f"{number}. {NAMES[group.kind]}{_where(found.images, group) if group.leak else ''}"
        cards = [
            _card(found.images, group.rows[place], pixels[group.rows[place]], _why(group, place))
            for place in _shown(found.images, group)
        ]
        more = f"and {len(group.rows) - OF_EACH:,} more" if len(group.rows) > OF_EACH else ""
        differ = len({found.images.label(row) for row in group.rows} - {""}) > 1
        note = "; ".join(filter(None, ["their labels differ" if differ else "", more]))
        yield Sheet(title, cards[1:], note=note, first=cards[0])


def _shown(images: Catalogue, group: Group) -> list[int]:
    """Places of those that the page shows: the one to keep, then those of other splits, which make it a leak."""
    split = images.split(group.rows[0])
    others = sorted(range(1, len(group.rows)), key=lambda place: images.split(group.rows[place]) == split)
    return [0, *others][:OF_EACH]


def _where(images: Catalogue, group: Group) -> str:
    """The splits of a leak."""
    return f" in {' and '.join(dict.fromkeys(images.split(row) or 'no split' for row in group.rows))}"


def _why(group: Group, place: int) -> list[str]:
    alike = "" if group.scores[place] >= 1 and group.kind == "exact" else f"alike: {group.scores[place]:.2f}"
    advice = "look" if group.kind == "similar" else "leave out" if place else "keep"
    return [part for part in (advice, alike) if part]


def _card(images: Catalogue, row: int, pixels: Pixels, notes: Sequence[str]) -> Card:
    known = " · ".join(filter(None, [images.split(row), images.label(row)]))
    return Card(pixels, images.name(row), [part for part in (known, *notes) if part])


def _labels(found: Cleaned, rows: Sequence[int], pixels: dict[int, Pixels]) -> Iterator[Sheet]:
    if not rows:
        return
    own = found.images.own
    cards = []
    for row in rows:
        better = own.classes[int(found.labels.suggested[row])]
        notes = [f"labelled {own.label(row)}", f"rather {better}", f"{100 * found.labels.score[row]:.2g} % probable"]
        cards.append(Card(pixels[row], own.files[row], notes))
    note = f"The {len(rows)} most doubtful of {len(found.labels.likely):,}, by classifiers that never saw these labels."
    yield Sheet("Likely label errors", cards, note=note)


def _outliers(found: Cleaned, rows: Sequence[int], pixels: dict[int, Pixels]) -> Iterator[Sheet]:
    if not rows:
        return
    cards = [_card(found.images, row, pixels[row], [f"distance {found.outlier_scores[row]:.3f}"]) for row in rows]
    note = f"The {len(rows)} farthest from their neighbours, of {len(found.outliers):,} that are far for this set."
    yield Sheet("Outliers", cards, note=note)
