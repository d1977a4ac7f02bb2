"""What `hardpair clean` found: groups of duplicates, outliers, likely label errors, and the table of them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardpair.embeddings.csv_files import write_csv
from hardpair.embeddings.duplicates import Links
from hardpair.embeddings.embedding import Embedding
from hardpair.embeddings.label_errors import LabelErrors
from hardpair.text import several

COLUMNS = (
    "filename", "kind", "group", "leak", "partner", "score", "suggestion", "label", "suggested_label", "split",
)  # fmt: skip
KEEP, LEAVE, LOOK = "keep", "leave out", "look"


class Catalogue:
    """The images of an embedding, and after them those of another one that it is compared with."""

    def __init__(self, own: Embedding, other: Embedding | None = None) -> None:
        self.own, self.other = own, other

    def __len__(self) -> int:
        return len(self.own) + (0 if self.other is None else len(self.other))

    def place(self, row: int) -> tuple[Embedding, int]:
        """The embedding of a row, and its row there."""
        if row < len(self.own):
            return self.own, row
        assert self.other is not None
        return self.other, row - len(self.own)

    def name(self, row: int) -> str:
        """The file; of the other embedding with the folder of its images."""
        embedding, inner = self.place(row)
        name = embedding.files[inner]
        return name if embedding is self.own else str(embedding.root / name)

    def split(self, row: int) -> str:
        """Train, test …; of the other embedding, its folder."""
        embedding, inner = self.place(row)
        return embedding.splits[inner] if row < len(self.own) else str(embedding.folder)

    def label(self, row: int) -> str:
        """The class, or nothing."""
        embedding, inner = self.place(row)
        return embedding.label(inner) or ""

    def sha256(self) -> list[str]:
        """Of all files."""
        return [*self.own.sha256, *([] if self.other is None else self.other.sha256)]

    def rank(self, row: int) -> tuple[bool, bool, int, int]:
        """The lowest of a group is kept: of the other embedding, of a test split, the largest, the first."""
        embedding, inner = self.place(row)
        width, height = embedding.sides[inner].tolist()
        return row < len(self.own), self.split(row) in ("", "train"), -width * height, row


@dataclass(frozen=True)
class Group:
    """The same picture, several times."""

    kind: str  # "exact", "near" (at least one of them), or "similar": by vectors alone
    rows: tuple[int, ...]  # the one to keep first
    partners: tuple[int, ...]  # of each row, the one that it is most alike
    scores: tuple[float, ...]  # of each row and its partner
    leak: bool  # in more than one split, or in both embeddings

    @property
    def score(self) -> float:
        """Of the most alike."""
        return max(self.scores)


def make_group(images: Catalogue, kind: str, rows: NDArray[np.int64], links: Links) -> Group:
    """From the links among these rows."""
    best: dict[int, tuple[float, int]] = {}
    for i, j, score in zip(links.i.tolist(), links.j.tolist(), links.score.tolist(), strict=True):
        best[i] = max(best.get(i, (-2.0, 0)), (score, j))
        best[j] = max(best.get(j, (-2.0, 0)), (score, i))
    ordered = sorted(rows.tolist(), key=images.rank)
    partners = tuple(best[row][1] for row in ordered)
    scores = tuple(best[row][0] for row in ordered)
    return Group(kind, tuple(ordered), partners, scores, len({images.split(row) for row in ordered}) > 1)


@dataclass(frozen=True)
class Cleaned:
    """What was found; rows are those of the embedding."""

    images: Catalogue
    groups: tuple[Group, ...]  # leaks first, then the most alike
    outliers: NDArray[np.int64]  # the farthest first
    outlier_scores: NDArray[np.float32]  # (N,) distance to the neighbours
    labels: LabelErrors
    notes: list[str]  # what to say to the user

    @property
    def leaks(self) -> tuple[Group, ...]:
        """Groups that lie in more than one split, or in both embeddings."""
        return tuple(group for group in self.groups if group.leak)

    def left_out(self) -> set[int]:
        """Rows of verified duplicates but for one of each group."""
        certain = (group for group in self.groups if group.kind != "similar")
        return {row for group in certain for row in group.rows[1:] if row < len(self.images.own)}

    def kept(self, without: Sequence[str] = ()) -> list[int]:
        """Rows worth keeping."""
        out = self.left_out()
        if "outliers" in without:
            out.update(self.outliers.tolist())
        if "labels" in without:
            out.update(self.labels.likely.tolist())
        return [row for row in range(len(self.images.own)) if row not in out]

    def write_table(self, target: Path) -> Path:
        """Everything, as CSV."""
        return write_csv(target, COLUMNS, self._lines())

    def summary(self, without: Sequence[str] = ()) -> list[str]:
        """A line for each kind, and the notes."""
        count = Counter(group.kind for group in self.groups)
        other = self.images.other
        leaks = "leaks between splits" if other is None else f"leaks between splits or to {other.folder}"
        lines = [
            f"exact duplicates: {several(count['exact'], 'group')}",
            f"near duplicates: {several(count['near'], 'group')}",
        ]
        if count["similar"]:
            lines.append(f"similar by vectors alone: {several(count['similar'], 'group')}")
        lines += [
            f"{leaks}: {several(len(self.leaks), 'group')}",
            f"outliers: {several(len(self.outliers), 'image')}",
            f"likely label errors: {several(len(self.labels.likely), 'image')}",
            f"worth keeping: {len(self.kept(without)):,} of {several(len(self.images.own), 'image')}",
        ]
        return lines + self.notes

    def _lines(self) -> Iterator[Sequence[object]]:
        for number, group in enumerate(self.groups, 1):
            yield from self._of_group(number, group)
        for row in self.labels.likely.tolist():
            better = self.images.own.classes[int(self.labels.suggested[row])]
            yield self._line(row, "label", "", "", "", self.labels.score[row], LOOK, better)
        for row in self.outliers.tolist():
            yield self._line(row, "outlier", "", "", "", self.outlier_scores[row], LOOK, "")

    def _of_group(self, number: int, group: Group) -> Iterator[Sequence[object]]:
        for place, row in enumerate(group.rows):
            partner, score = group.partners[place], group.scores[place]
            advice = LOOK if group.kind == "similar" else LEAVE if place else KEEP
            if row < len(self.images.own):
                name = self.images.name(partner)
                yield self._line(row, group.kind, number, "yes" if group.leak else "", name, score, advice, "")

    def _line(
        self, row: int, kind: str, group: object, leak: str, partner: str, score: float, advice: str, better: str
    ) -> Sequence[object]:
        images = self.images
        known = images.name(row), kind, group, leak, partner, f"{score:.4f}", advice
        return *known, images.label(row), better, images.split(row)
