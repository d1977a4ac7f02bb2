"""The pictures of an embedding, read again from where they lie: for pages, and to compare pixels."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from hardpair.data.decode import THREADS, UnusableError, read_square
from hardpair.data.images import Images, resize
from hardpair.embeddings.embedding import Embedding
from hardpair.embeddings.source import Decoded, open_again
from hardpair.errors import UserError


def moved_to(images: str | os.PathLike[str] | None) -> Path | None:
    """The folder that --images names; before any work."""
    if images is not None and not Path(images).is_dir():
        raise UserError(f"images: there is no folder {os.fspath(images)}")
    return None if images is None else Path(images)


class Pictures:
    """Pixels by row of an embedding; None for a picture that is no longer there."""

    def __init__(self, embedding: Embedding, *, root: Path | None = None, data_root: Path = Path("data")) -> None:
        """``root`` is where the pictures lie now, if they were moved since they were embedded."""
        self.embedding = embedding
        self.root = embedding.root if root is None else root
        self.decoded: Decoded | None = None
        if embedding.manifest["images"]["kind"] == "pixels":
            source = open_again(embedding, root=root, data_root=data_root)
            assert isinstance(source, Decoded)
            self.decoded = source

    def path(self, row: int) -> Path | None:
        """The file of a picture, whether it is there or not; None in sets that have no files."""
        return None if self.decoded is not None else self.root / self.embedding.files[row]

    def squares(self, rows: Sequence[int], size: int) -> list[NDArray[np.uint8] | None]:
        """The centre square of each, (3, size, size), by threads."""
        if self.decoded is not None:
            return list(self._of_decoded(rows, size))
        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(lambda row: self._read(row, size), rows))

    def _read(self, row: int, size: int) -> NDArray[np.uint8] | None:
        try:
            return read_square(self.root / self.embedding.files[row], size).pixels
        except UnusableError:
            return None

    def _of_decoded(self, rows: Sequence[int], size: int) -> list[NDArray[np.uint8]]:
        assert self.decoded is not None
        found: dict[int, NDArray[np.uint8]] = {}
        start = 0
        for _, images in self.decoded.splits:
            wanted = sorted({row for row in rows if start <= row < start + len(images)})
            if wanted:
                pixels = images.batch(torch.tensor(wanted) - start)
                found |= zip(wanted, resize(Images(pixels, None, (), ""), size).block.numpy(), strict=True)
            start += len(images)
        return [found[row] for row in rows]
