"""What a head says of every image of an embedding: a table, and a page with the pictures it is least sure of."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from hardpair.data.progress import progress
from hardpair.embeddings.csv_files import write_csv
from hardpair.embeddings.embedding import Embedding
from hardpair.embeddings.head import LinearHead
from hardpair.embeddings.head_report import Report
from hardpair.embeddings.labels import Labelled
from hardpair.embeddings.page_pictures import PagePictures, page_pictures
from hardpair.embeddings.sheet import Card, Group, write_sheet
from hardpair.text import several

COLUMNS = ("filename", "label", "probability", "second", "margin", "given")
ROWS = 4096  # of the vectors that are read at a time
MOST_PICTURES, OF_A_CLASS = 480, 12  # on the page: 3 MB
SURE, UNSURE = 0.9, 0.5  # probabilities that are counted


@dataclass(frozen=True)
class Predictions:
    """The two most probable classes of each image."""

    embedding: Embedding
    head: LinearHead
    best: NDArray[np.int64]  # (N, 2) numbers of the two classes, the more probable first
    shares: NDArray[np.float32]  # (N, 2) their probabilities, calibrated
    given: NDArray[np.int64]  # (N,) number of the label that was given, -1 where there was none
    given_classes: tuple[str, ...]  # what those numbers stand for
    report: Report | None = None  # of a head fitted just now: on labels held out of its fits
    test: Report | None = None  # on labelled images that were no part of the fit
    judgement: str = ""  # of fine-tuning: which of the two is better, in words

    def __len__(self) -> int:
        return len(self.best)

    @property
    def files(self) -> tuple[str, ...]:
        """(N,) names."""
        return tuple(self.embedding.files)

    @property
    def labels(self) -> tuple[str, ...]:
        """(N,) the most probable class of each."""
        return tuple(self.head.classes[k] for k in self.best[:, 0].tolist())

    @property
    def probabilities(self) -> NDArray[np.float32]:
        """(N,) of those classes."""
        return self.shares[:, 0]

    @property
    def margins(self) -> NDArray[np.float32]:
        """(N,) how far the second class is behind; small where the head is not sure."""
        return self.shares[:, 0] - self.shares[:, 1]

    def write_csv(self, target: Path) -> Path:
        """A line per image."""
        return write_csv(target, COLUMNS, self._lines())

    def _lines(self) -> Iterator[tuple[str, ...]]:
        classes, given = (*self.head.classes, ""), (*self.given_classes, "")
        for start in range(0, len(self), ROWS):
            part = slice(start, start + ROWS)
            columns = self.best[part].tolist(), self.shares[part].tolist(), self.given[part].tolist()
            for row, ((first, second), (share, after), label) in enumerate(zip(*columns, strict=True), start=start):
                numbers = f"{share:.4f}", classes[second], f"{share - after:.4f}"
                yield self.embedding.files[row], classes[first], *numbers, given[label]

    def least_sure(self, k: int, most: int) -> NDArray[np.int64]:
        """Rows that are taken for class k, the smallest margins first; only ones without a label, if there are any."""
        unlabelled = self.given < 0
        rows = np.flatnonzero((self.best[:, 0] == k) & (unlabelled | (not unlabelled.any())))
        found: NDArray[np.int64] = rows[np.argsort(self.margins[rows], kind="stable")[:most]]
        return found

    def write_page(self, target: Path, *, images: Path | None = None, data_root: Path = Path("data")) -> Path:
        """The pictures it is least sure of, by the class they are taken for."""
        each = min(OF_A_CLASS, max(2, MOST_PICTURES // len(self.head.classes)))
        rows = [self.least_sure(k, each) for k in range(len(self.head.classes))]
        shown = [k for k, some in enumerate(rows) if len(some)]
        shown.sort(key=lambda k: float(self.margins[rows[k]].mean()))
        lede = (
            f"{several(len(self), 'picture')}, {len(self.head.classes):,} classes. For each class the pictures that "
            "are taken for it though a second class is nearly as probable; those with a label are left out where there "
            "are others. They are good candidates for the next labels."
        )
        with page_pictures(target, self.embedding, images=images, data_root=data_root) as pictures:
            groups = (self._group(k, rows[k], pictures) for k in sorted(shown[: MOST_PICTURES // each]))
            return write_sheet(target, "Where the classifier is not sure", lede, groups, kicker="hardpair classify")

    def _group(self, k: int, rows: NDArray[np.int64], pictures: PagePictures) -> Group:
        squares = pictures.squares(rows.tolist())
        cards = [
            Card(pixels, self.embedding.files[row], self._notes(row))
            for row, pixels in zip(rows.tolist(), squares, strict=True)
        ]
        count = int((self.best[:, 0] == k).sum())
        return Group(self.head.classes[k], cards, f"{several(count, 'picture')} taken for this class")

    def _notes(self, row: int) -> list[str]:
        both = zip(self.best[row].tolist(), self.shares[row].tolist(), strict=True)
        said = [f"given: {self.given_classes[self.given[row]]}"] if self.given[row] >= 0 else []
        return [f"{self.head.classes[k]} {100 * share:.0f} %" for k, share in both] + said

    def lines(self) -> Iterator[str]:
        """What is known of how good the head is, and how sure it is."""
        for report in (self.report, self.test):
            if report is not None:
                yield from report.lines()
        if self.judgement:
            yield self.judgement
        if self.report is None and self.test is None:
            yield "no labels to measure with, so how many are right is not known"
        sure, unsure = int((self.probabilities >= SURE).sum()), int((self.probabilities < UNSURE).sum())
        mean = float(self.probabilities.mean())
        shares = f"{SURE} or more for {sure:,}, below {UNSURE} for {unsure:,}, {mean:.2f} on average"
        yield f"probability of the class, for {several(len(self), 'picture')}: {shares}"


def predict_all(head: LinearHead, embedding: Embedding, given: Labelled | None) -> Predictions:
    """The two most probable classes of every image."""
    head.require_fits(embedding)
    count = len(embedding)
    best, shares = np.empty((count, 2), np.int64), np.empty((count, 2), np.float32)
    with progress("predictions", count) as advance:
        for start in range(0, count, ROWS):
            part = slice(start, min(start + ROWS, count))
            top = torch.from_numpy(head.probabilities(embedding.vectors[part])).topk(2, dim=1)
            shares[part], best[part] = top.values.numpy(), top.indices.numpy()
            advance(part.stop - part.start)
    labels = np.full(count, -1, dtype=np.int64)
    if given is not None:
        labels[given.rows] = given.labels
    return Predictions(embedding, head, best, shares, labels, () if given is None else given.classes)
