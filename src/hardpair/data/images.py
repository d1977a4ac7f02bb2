"""What every data source becomes: one block of uint8 pixels, with labels where there are any."""

import functools
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from hardpair.data.mapping import read_ahead

Split = Literal["train", "test"]


@dataclass(frozen=True)
class KnownHash:
    """Of a block that need not be read to know it; of any other block it says nothing."""

    block: Tensor
    sha256: str


@dataclass(frozen=True)
class Images:
    """Square uint8 images of one size, in a fixed order."""

    block: Tensor  # uint8 (M, 3, S, S); may be memory mapped
    labels: Tensor | None  # int64 (N,), or (N, C) of 1, -1 and 0 (do not count), or None where nobody labelled them
    classes: tuple[str, ...]  # class names, label k is classes[k]; empty without labels
    name: str  # what people call it: "sample/train"
    skipped: tuple[str, ...] = ()  # "file: reason" of files that could not be used
    files: tuple[str, ...] = ()  # (N,) names of the files they come from, where they come from files
    rows: Tensor | None = None  # int64 (N,), which of the block these are; None where they are all of it
    known: KnownHash | None = None

    def __len__(self) -> int:
        return len(self.block if self.rows is None else self.rows)

    @property
    def size(self) -> int:
        """Side of an image in pixels."""
        return int(self.block.shape[-1])

    @property
    def pixels(self) -> Tensor:
        """All of them, uint8 (N, 3, S, S): a copy where they are a selection, so prefer `batch` for large sets."""
        return self.block if self.rows is None else self._pick(self.rows)

    def batch(self, rows: Tensor) -> Tensor:
        """The pixels of some: uint8 (n, 3, S, S)."""
        return self._pick(rows if self.rows is None else self.rows[rows])

    def batches(self, size: int) -> Iterator[Tensor]:
        """The pixels of all, so many at a time and in order."""
        for start in range(0, len(self), size):
            part = slice(start, start + size)
            yield self.block[part] if self.rows is None else self._pick(self.rows[part])

    def _pick(self, rows: Tensor) -> Tensor:
        """Rows of the block. numpy copies whole images, where torch's index goes from pixel to pixel."""
        read_ahead(self.block, rows)
        return torch.from_numpy(self.block.numpy()[rows.numpy()])

    def select(self, rows: Tensor) -> "Images":
        """The images at the given rows, in that order. No pixel is copied, however many there are."""
        labels = None if self.labels is None else self.labels[rows]
        files = tuple(self.files[row] for row in rows.tolist()) if self.files else ()
        return replace(self, rows=rows if self.rows is None else self.rows[rows], labels=labels, files=files)

    def centre(self, size: int) -> "Images":
        """The central square of each image."""
        if size == self.size:
            return self
        edge = (self.size - size) // 2
        block = self.block[:, :, edge : edge + size, edge : edge + size]
        whole = self._block_hash()
        return replace(
            self, block=block, known=None if whole is None else KnownHash(block, f"centre {size} of {whole}")
        )

    def facts(self) -> dict[str, Any]:
        """Name, number and hash, as runs and scores write them down."""
        return {"name": self.name, "images": len(self), "digest": self.digest()}

    def digest(self) -> str:
        """Hash of every pixel and label, so that a score says exactly what it was measured on.

        Where the hash of the block is known, it stands for the pixels; sets that fill a disk are not read for it.
        """
        return self._digest

    @functools.cached_property
    def _digest(self) -> str:
        sha = hashlib.sha256(str((len(self), *self.block.shape[1:])).encode())
        for piece in self._content():
            sha.update(piece)
        if self.labels is not None:
            sha.update(self.labels.to(torch.int64).contiguous().numpy().data)
        return sha.hexdigest()

    def _content(self) -> Iterator[bytes | memoryview]:
        """What decides the pixels: themselves, or the hash of the block and which of it these are."""
        if (known := self._block_hash()) is None:
            for batch in self.batches(256):
                yield batch.contiguous().numpy().data
            return
        yield known.encode()
        if self.rows is not None:
            yield self.rows.contiguous().numpy().data

    def _block_hash(self) -> str | None:
        """None also where somebody put another block in the place of the one whose hash is known."""
        return self.known.sha256 if self.known is not None and self.known.block is self.block else None
