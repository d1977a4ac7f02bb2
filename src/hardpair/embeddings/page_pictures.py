"""The pictures of a page: those that are gone leave a gap, and afterwards one line says how many and what helps."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardpair.embeddings.embedding import Embedding
from hardpair.embeddings.pictures import Pictures
from hardpair.embeddings.sheet import SIDE
from hardpair.errors import UserError

log = logging.getLogger("hardpair")


class PagePictures:
    """Pixels by row, as large as a page shows them, and how many there were."""

    def __init__(self, pictures: Pictures | None) -> None:
        self.pictures, self.asked, self.gone = pictures, 0, 0

    def squares(self, rows: Sequence[int]) -> list[NDArray[np.uint8] | None]:
        """(3, S, S) each; None for one that is not there."""
        squares: list[NDArray[np.uint8] | None] = [None] * len(rows)
        if self.pictures is not None:
            squares = self.pictures.squares(rows, SIDE)
        self.asked += len(rows)
        self.gone += sum(square is None for square in squares)
        return squares


@contextmanager
def page_pictures(
    page: Path, embedding: Embedding, *, images: Path | None = None, data_root: Path = Path("data")
) -> Iterator[PagePictures]:
    """Pictures for this page; ``images`` is where they lie now. A page without any is still a page."""
    pictures, what_helps = open_pictures(embedding, images=images, data_root=data_root)
    shown = PagePictures(pictures)
    yield shown
    tell_gone(page, shown.gone, shown.asked, what_helps)


def open_pictures(embedding: Embedding, *, images: Path | None, data_root: Path) -> tuple[Pictures | None, str]:
    """None where a packed or a named set is not there any more; and what to do about pictures that are gone."""
    where = f"say with --images where those of {embedding.root if images is None else images} are now"
    try:
        return Pictures(embedding, root=images, data_root=data_root), where
    except UserError as reason:
        return None, str(reason)


def tell_gone(page: Path, gone: int, asked: int, what_helps: str) -> None:
    """One line, if there are any."""
    if gone:
        log.warning("%s: %d of its %d pictures could not be read; %s", page, gone, asked, what_helps)
