"""What every data source becomes: one block of uint8 pixels, with labels where there are any; the order of visits."""

import base64
import ctypes
import functools
import hashlib
import io
import math
import mmap
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.nn import functional

from hardpair.errors import printable

Split = Literal["train", "test"]
SPLITS: tuple[Split, ...] = ("train", "test")
LEAST_SIZE = 8  # pixels a side
CENTRE = 224 / 256  # of the side: what test images show of a larger square, as usual on ImageNet
T = TypeVar("T", bound=np.generic)
# Linux sets memory aside for a map that may be written to, and refuses one larger than all it has; of ours hardly a
# page ever is. Python knows the flag by name only from 3.13 on.
NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)
_MAPPED: list[range] = []  # the addresses of all maps so far; those of closed ones do no harm, since advice is free


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
    shown: int = 0  # side at which encoders see them, or crops of them; 0 is their own

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

    def shown_at(self, size: int) -> "Images":
        """The same images, of which encoders see so many pixels a side; they are reduced batch by batch."""
        shown = 0 if size == self.size else size
        return self if shown == self.shown else replace(self, shown=shown)

    def tested_at(self, size: int) -> "Images":
        """As encoders are tested on them: the centre, 224 of 256 px, shown at this size.

        The whole square is shown where it is too small for that, as it is where it already has this size.
        """
        room = self.size if self.size < larger_square(size) else round(self.size * CENTRE)
        return self.centre(room).shown_at(size)

    def facts(self) -> dict[str, Any]:
        """Name, number and hash, as runs and scores write them down."""
        sides = {"square": self.size, "shown": self.shown} if self.shown else {}
        return {"name": self.name, "images": len(self), "digest": self.digest(), **sides}

    def digest(self) -> str:
        """Hash of every pixel and label, so that a score says exactly what it was measured on.

        Where the hash of the block is known, it stands for the pixels; sets that fill a disk are not read for it.
        """
        return self._digest

    @functools.cached_property
    def _digest(self) -> str:
        sha = hashlib.sha256(str((len(self), *self.block.shape[1:])).encode())
        if self.shown:
            sha.update(f"shown at {self.shown}".encode())
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


def larger_square(size: int) -> int:
    """Side of the squares whose centres are shown at this size: 256 for 224."""
    return round(size / CENTRE)


def resize(images: Images, size: int) -> Images:
    """Antialiased bicubic."""
    if images.size == size:
        return images
    pixels = torch.cat(list(resized_batches(images, size, 1000)))
    return replace(images, block=pixels, rows=None)


def resized_batches(images: Images, size: int, at_once: int, *, first: int = 0) -> Iterator[Tensor]:
    """Their pixels at another size, in parts so that the float copies stay small."""
    for start in range(first, len(images), at_once):
        part = images.batch(torch.arange(start, min(start + at_once, len(images))))
        yield functional.interpolate(part, (size, size), mode="bicubic", antialias=True)


def describe_image(images: Images, row: int) -> dict[str, Any]:
    """Its row, its label and file where it has them, and its pixels as PNG in base64."""
    buffer = io.BytesIO()
    pixels = images.batch(torch.tensor([row]))[0].permute(1, 2, 0)
    picture = Image.fromarray(np.ascontiguousarray(pixels.numpy()))
    (picture.resize((images.shown, images.shown)) if images.shown else picture).save(buffer, "PNG")
    label = None if images.labels is None else images.classes[int(images.labels[row])]
    file = printable(images.files[row]) if images.files else None
    return {"id": row, "label": label, "file": file, "png": base64.b64encode(buffer.getvalue()).decode()}


def generator_for(*key: object) -> torch.Generator:
    """A generator whose stream depends on the key alone.

    Hashing keeps neighbouring keys apart: seeds 0 and 1 share no prefix, and (1, 23) is not (12, 3).
    """
    digest = hashlib.sha256(repr(key).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


def epoch_order(count: int, *, seed: int, epoch: int) -> Tensor:
    """A permutation of `count` rows, int64; a run that resumes at an epoch sees the order it would have seen."""
    return torch.randperm(count, generator=generator_for("epoch", int(seed), int(epoch)))


def map_file(path: Path, shape: tuple[int, ...], kind: type[T], *, offset: int = 0) -> NDArray[T]:
    """The array that begins at an offset; ValueError where the file is shorter.

    What the caller changes stays in its own memory and never reaches the file: torch dislikes read-only arrays.
    """
    count = math.prod(shape)
    with path.open("rb") as file:
        pages = mmap.mmap(
            file.fileno(),
            offset + count * np.dtype(kind).itemsize,
            flags=mmap.MAP_PRIVATE | NO_RESERVE,
            prot=mmap.PROT_READ | mmap.PROT_WRITE,
        )
    array = np.frombuffer(pages, dtype=kind, count=count, offset=offset)
    _MAPPED.append(range(array.ctypes.data, array.ctypes.data + array.nbytes))
    return array.reshape(shape)


def read_ahead(block: Tensor, rows: Tensor) -> None:
    """Have the system read these rows of a mapped block (N, ...) now, all at once; any other block is left alone.

    As they are touched they would be read one by one, and a disk can do much at a time: 256 images of 96 px that are
    not in memory yet took 1.6 s that way and .03 s this way.
    """
    first, stride = block.data_ptr(), block.stride(0) * block.element_size()
    if not hasattr(mmap, "MADV_WILLNEED") or not any(first in span for span in _MAPPED):
        return
    advise = ctypes.CDLL(None).madvise
    for row in rows.tolist():
        start = first + row * stride
        page = start - start % mmap.PAGESIZE  # what is advised begins with a page
        advise(ctypes.c_void_p(page), ctypes.c_size_t(start + stride - page), mmap.MADV_WILLNEED)
