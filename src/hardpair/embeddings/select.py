"""`hardpair select`: which images to label first, as a table that is ready to be filled in."""

import csv
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hardpair.embeddings.choices import Choice, Task, coverage, typical, uncertain
from hardpair.embeddings.csv_files import refuse_other, write_csv
from hardpair.embeddings.embedding import Embedding, open_embedding
from hardpair.embeddings.labels import labels_from_table
from hardpair.embeddings.page_pictures import PagePictures, page_pictures
from hardpair.embeddings.pictures import moved_to
from hardpair.embeddings.sheet import Card, Group, refuse_other_page, write_sheet
from hardpair.errors import UserError, require_range, shown
from hardpair.machine import prepare_to_compute
from hardpair.text import several

COLUMNS = ("filename", "label", "reason", "images", "score")
WAYS = ("typical", "coverage", "uncertain")
MOST_COUNT = 100_000
MOST_GROUPS = 200  # on the page: with seven pictures each it has about 7 MB
Way = Literal["typical", "coverage", "uncertain"]
FilePath = str | os.PathLike[str]


@dataclass(frozen=True)
class Selection:
    """Images to label, the most useful first."""

    embedding: Embedding
    by: Way
    choices: tuple[Choice, ...]
    among: int  # images that might have been chosen
    labelled: int  # images that had a label before
    copies: int  # of images that are chosen or have a label, which are not chosen themselves

    @property
    def rows(self) -> list[int]:
        """Of the embedding."""
        return [choice.row for choice in self.choices]

    @property
    def files(self) -> list[str]:
        """Names of the images."""
        return [self.embedding.files[row] for row in self.rows]

    def write_csv(self, target: Path) -> Path:
        """A line per image, with an empty label; refused where a label was filled in already."""
        refuse_filled(target)
        return write_csv(target, COLUMNS, self._lines())

    def _lines(self) -> Iterator[tuple[object, ...]]:
        for choice in self.choices:
            yield self.embedding.files[choice.row], "", choice.reason, choice.images, f"{choice.score:.4f}"

    def write_page(self, target: Path, *, images: Path | None = None, data_root: Path = Path("data")) -> Path:
        """A contact sheet: each image with some that it stands for; ``images`` is where the pictures lie now."""
        refuse_other_page(target)
        most = self.choices[:MOST_GROUPS]
        lede = f"{several(len(self.choices), 'image')} of {self.among:,}, the most useful first."
        if len(most) < len(self.choices):
            lede += f" Here are the first {len(most)}; the CSV file has all."
        kicker = f"hardpair select · {self.embedding.folder}"
        with page_pictures(target, self.embedding, images=images, data_root=data_root) as pictures:
            groups = (self._group(number, choice, pictures) for number, choice in enumerate(most, start=1))
            return write_sheet(target, "Label these first", lede, groups, kicker=kicker)

    def _group(self, number: int, choice: Choice, pictures: PagePictures) -> Group:
        rows = [choice.row, *choice.alike]
        squares = pictures.squares(rows)
        cards = [Card(pixels, self.embedding.files[row]) for row, pixels in zip(rows, squares, strict=True)]
        return Group(f"{number}: {choice.reason}", cards[1:], first=cards[0])


def select(
    embedding: Embedding | FilePath,
    *,
    count: int = 100,
    by: Way | Literal[""] = "",
    labels: FilePath | None = None,
    out: FilePath | None = None,
    page: FilePath | None = None,
    images: FilePath | None = None,
    data_root: FilePath = "data",
    seed: int = 0,
    threads: int = 0,
) -> Selection:
    """The images to label first; of images with splits, those to train on.

    Args:
        embedding: what to choose from, or its folder.
        count: how many.
        by: typical (one of each large cluster), coverage (those that most others are near to) or uncertain (those that
            a classifier fitted on the labels hesitates about). When not given: typical.
        labels: a table with the columns filename and label, of images that are labelled already; they are not chosen.
        out: also write the table to fill in to this file.
        page: also write a contact sheet to this file.
        images: where the pictures are now, if they were moved.
        data_root: where downloaded sets are kept.
        seed: of the clusters.
        threads: of the CPU; 0 leaves the choice to torch.
    """
    require_range("count", count, 1, MOST_COUNT)
    if by not in ("", *WAYS):
        raise UserError(f"by: must be {', '.join(WAYS[:-1])} or {WAYS[-1]}, not {shown(by)}")
    if by == "uncertain" and labels is None:
        raise UserError("by: uncertain needs labels to learn from; give --labels, or choose typical ones first")
    root = moved_to(images)
    for target, refuse in ((out, refuse_filled), (page, refuse_other_page)):
        if target is not None:
            refuse(Path(target))
    prepare_to_compute(threads)
    if not isinstance(embedding, Embedding):
        embedding = open_embedding(os.fspath(embedding))
    selection = _select(embedding, count, by, None if labels is None else Path(labels), seed)
    if out is not None:
        selection.write_csv(Path(out))
    if page is not None:
        selection.write_page(Path(page), images=root, data_root=Path(data_root))
    return selection


def _select(embedding: Embedding, count: int, by: Way | Literal[""], labels: Path | None, seed: int) -> Selection:
    known = None if labels is None else labels_from_table(embedding, labels)
    labelled = np.empty(0, np.int64) if known is None else np.sort(known.rows)
    rows = np.union1d(_to_train_on(embedding), labelled)
    task = Task(embedding, rows, labelled, min(count, len(rows) - len(labelled)), seed)
    if not task.count:
        raise UserError(f"{labels}: has labels for all {several(len(rows), 'image')}; there is none left to choose")
    way = by or "typical"
    if way == "uncertain":
        assert known is not None
        known.require_two_classes()
        choices = uncertain(task, known)
    else:
        choices = (typical if way == "typical" else coverage)(task)
    taken = [*labelled.tolist(), *(choice.row for choice in choices)]
    contents = {embedding.sha256[row] for row in taken}
    copies = sum(embedding.sha256[row] in contents for row in rows.tolist()) - len(taken)
    return Selection(embedding, way, tuple(choices), len(rows) - len(labelled), len(labelled), copies)


def _to_train_on(embedding: Embedding) -> NDArray[np.int64]:
    """All images, or where they have splits those of the training split."""
    splits = np.array(embedding.splits)
    train = splits == "train"
    return np.flatnonzero(train) if train.any() else np.arange(len(embedding))


def refuse_filled(target: Path) -> None:
    """Before any work: refuse to write over labels that somebody filled in, or over another file."""
    refuse_other(target, COLUMNS)
    if is_filled(target):
        raise UserError(f"{target}: has labels filled in, which would be lost; give another name with --out")


def is_filled(table: Path) -> bool:
    """Whether a table of ours has any label."""
    if not table.is_file():
        return False
    with table.open(newline="", encoding="utf-8", errors="surrogateescape") as file:
        try:
            return any(len(row) > 1 and row[1].strip() for row in list(csv.reader(file))[1:])
        except csv.Error:  # whoever wrote that wrote something
            return True


def next_table(folder: Path) -> Path:
    """select.csv, or the first of select-2.csv, select-3.csv … that nobody has filled in or saved in another form."""
    names = itertools.chain([folder / "select.csv"], (folder / f"select-{n}.csv" for n in itertools.count(2)))
    return next(table for table in names if not table.exists() or _is_free(table))


def _is_free(table: Path) -> bool:
    try:
        refuse_filled(table)
    except UserError:
        return False
    return True
