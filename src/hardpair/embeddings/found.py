"""What a search has found: rows and similarities, as a table, a CSV file and a contact sheet."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardpair.embeddings.csv_files import write_csv
from hardpair.embeddings.embedding import Embedding
from hardpair.embeddings.page_pictures import PagePictures, page_pictures
from hardpair.embeddings.queries import Asked
from hardpair.embeddings.sheet import SIDE, Card, Group, write_sheet
from hardpair.errors import printable
from hardpair.report.markup import aligned
from hardpair.text import several

COLUMNS = ("filename", "query", "rank", "similarity", "label", "split")
MOST_LINES = 50  # of the table
MOST_GROUPS = 100  # queries on the page: with ten pictures each it has about 5 MB
Place = tuple[int, int]  # which word, and which of its queries
log = logging.getLogger("hardpair")


@dataclass(frozen=True)
class Found:
    """The nearest images of each query, the nearest first.

    The queries come in the order given; those of another embedding begin with the most similar pair.
    """

    embedding: Embedding
    queries: tuple[str, ...]  # (M,) names
    rows: NDArray[np.int64]  # (M, k) of the embedding
    similarity: NDArray[np.float32]  # (M, k) cosine
    asked: tuple[Asked, ...]  # what each word stood for
    places: tuple[Place, ...]  # (M,) where each query is from

    @property
    def files(self) -> list[tuple[str, ...]]:
        """Names of the images found, for each query."""
        return [tuple(self.embedding.files[row] for row in rows) for rows in self.rows]

    def write_csv(self, target: Path) -> Path:
        """All of it: a line per image found."""
        return write_csv(target, COLUMNS, self._lines())

    def _lines(self) -> Iterator[tuple[object, ...]]:
        files, splits = self.embedding.files, self.embedding.splits
        for query, rows, similarity in zip(self.queries, self.rows.tolist(), self.similarity.tolist(), strict=True):
            for rank, (row, value) in enumerate(zip(rows, similarity, strict=True), start=1):
                yield files[row], query, rank, f"{value:.6f}", self.embedding.label(row) or "", splits[row]

    def table(self, most: int = MOST_LINES) -> list[str]:
        """Lines of text; of another embedding's images only the nearest of each."""
        if not self.rows.shape[1]:
            return [f"{self.embedding.folder}: has no other image than the one you search for"]
        cells = [("query", "found", "label", "rank", "similarity")]
        for place, query in enumerate(self.queries):
            ranks = range(min(self.rows.shape[1], 1 if self.asked[self.places[place][0]].whole else most))
            cells += [self._cells(place, rank, query) for rank in ranks]
        lines = [line.rstrip() for line in aligned(cells[: most + 1], words=3)]
        left = len(cells) - len(lines)
        return [*lines, f"… and {several(left, 'line')} more"] if left else lines

    def _cells(self, place: int, rank: int, query: str) -> tuple[str, str, str, str, str]:
        row, similarity = int(self.rows[place, rank]), float(self.similarity[place, rank])
        file, label = self.embedding.files[row], self.embedding.label(row) or ""
        return printable(query), printable(file), printable(label), str(rank + 1), f"{similarity:.3f}"

    def write_page(self, target: Path, *, images: Path | None = None, data_root: Path = Path("data")) -> Path:
        """The contact sheet; ``images`` is where the pictures of the embedding lie now, if they were moved."""
        most = self.places[:MOST_GROUPS]
        count = "One query" if len(self.queries) == 1 else f"{len(self.queries):,} queries"
        lede = f"{count}, {self.rows.shape[1]} nearest of {several(len(self.embedding), 'image')} by cosine similarity."
        if len(most) < len(self.places):
            lede += f" Here are the first {len(most)}; the CSV file has all."
        kicker = f"hardpair search · {self.embedding.folder}"
        with page_pictures(target, self.embedding, images=images, data_root=data_root) as pictures:
            return write_sheet(target, "Found", lede, self._groups(target, len(most), pictures), kicker=kicker)

    def _groups(self, target: Path, count: int, pictures: PagePictures) -> Iterator[Group]:
        gone = 0
        for place, query in enumerate(self.queries[:count]):
            word, number = self.places[place]
            asked = self.asked[word]
            if asked.pixels is None:
                [first] = pictures.squares([int(asked.own[number])])
            else:
                [first] = asked.pixels([number], SIDE)
                gone += first is None
            cards = self._cards(place, pictures.squares(self.rows[place].tolist()))
            yield Group(query, cards, first=Card(first, query, ("query",)))
        if gone:
            log.warning("%s: %d of its %d queries are pictures that could not be read", target, gone, count)

    def _cards(self, place: int, squares: Sequence[NDArray[np.uint8] | None]) -> list[Card]:
        cards = []
        for rank, (row, pixels) in enumerate(zip(self.rows[place].tolist(), squares, strict=True)):
            about = [f"{self.similarity[place, rank]:.3f}", self.embedding.label(row), self.embedding.splits[row]]
            cards.append(Card(pixels, self.embedding.files[row], [words for words in about if words]))
        return cards
