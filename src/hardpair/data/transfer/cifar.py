"""CIFAR-10 with a validation split, enlarged once and remembered."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from hardpair.data.cache import cache_key, remember
from hardpair.data.cifar10 import ARCHIVE, FILES, Source, read_cifar10
from hardpair.data.images import Images, Split
from hardpair.data.transfer.held_out import hold_out_number
from hardpair.data.transfer.sets import MissingSetError, TransferSet, TransferSplit

AT_ONCE = 1000  # images resized at a time, so that their float copies stay small


def read_cifar(split: TransferSplit, size: int, root: Path, wanted: TransferSet, *, download: bool) -> Images:
    """A split as squares of `size` pixels; a missing set is downloaded only where that is allowed."""
    part: Split = "test" if split == "test" else "train"
    folder = root / wanted.folder
    if folder.exists() or not (download or (root / ARCHIVE).exists()):
        _check_files(folder, part, wanted)
    images = read_cifar10(root, part, source=Source(records=wanted.test))  # each of the six files is as long as test
    if split in ("train", "validation"):
        assert images.labels is not None
        images = images.select(hold_out_number(images.labels, total=wanted.validation, seed=0)[split == "validation"])
    return _resize(replace(images, name=f"cifar10/{split}"), size, folder)


def _check_files(folder: Path, part: Split, wanted: TransferSet) -> None:
    for file in FILES[part]:
        if not (folder / file).is_file():
            raise MissingSetError(wanted, folder, f"{file} is missing")


def _resize(images: Images, size: int, folder: Path) -> Images:
    """Antialiased bicubic, into the cache: 45,000 images of 224 pixels would fill 7 GB of memory."""
    if images.size == size:
        return images

    def fill(pixels: NDArray[np.uint8]) -> tuple[list[int], tuple[str, ...]]:
        starts = range(0, len(images), AT_ONCE)
        for start, part in zip(starts, images.batches(AT_ONCE), strict=True):
            large = functional.interpolate(part, (size, size), mode="bicubic", antialias=True)
            pixels[start : start + AT_ONCE] = large.numpy()
        return list(range(len(images))), ()

    key = cache_key(folder, [images.digest()], size)  # in place of file names: what exactly was enlarged
    decoded = remember(key, (len(images), 3, size, size), fill)
    return replace(images, block=torch.from_numpy(decoded.pixels), rows=None)
