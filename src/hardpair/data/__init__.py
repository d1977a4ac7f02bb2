"""Where images come from: the bundled sample, CIFAR-10, or any folder of pictures, packed or not."""

from dataclasses import replace
from pathlib import Path

import torch
from torch.nn import functional

from hardpair.data.cifar10 import read_cifar10
from hardpair.data.folder import read_folder
from hardpair.data.images import Images, Split
from hardpair.data.label_lists import label_subset
from hardpair.data.names import NAMES, as_folder
from hardpair.data.order import epoch_order
from hardpair.data.outline import outline_images
from hardpair.data.packed import is_packed, open_packed
from hardpair.data.sample import read_sample
from hardpair.data.subsets import hold_out, some_of_each
from hardpair.errors import UserError

__all__ = ["Images", "epoch_order", "hold_out", "label_subset", "open_images", "outline_images"]

LEAST_SIZE = 8


def open_images(data: str, split: Split, *, size: int, root: Path) -> Images:
    """One split of "sample", of "cifar10" (kept below `root`), or of a folder, as squares of `size` pixels.

    "cifar10:10000" has so many of the training images, of each class as many, and all test images.
    """
    if size < LEAST_SIZE:
        raise UserError(f"size: {size} pixels are too few; give at least {LEAST_SIZE}")
    name, colon, count = data.partition(":")
    if name in NAMES:
        images = read_sample(split) if name == "sample" else read_cifar10(root, split)
        return _resize(some_of_each(images, data, count) if colon and split == "train" else images, size)
    folder = as_folder(data)
    return open_packed(folder, split, size) if is_packed(folder) else read_folder(folder, split, size)


def _resize(images: Images, size: int) -> Images:
    """Antialiased bicubic, in parts so that the float copies stay small."""
    if images.size == size:
        return images
    pixels = torch.empty(len(images), 3, size, size, dtype=torch.uint8)
    for start, part in zip(range(0, len(images), 1000), images.batches(1000), strict=True):
        pixels[start : start + 1000] = functional.interpolate(part, (size, size), mode="bicubic", antialias=True)
    return replace(images, block=pixels, rows=None)
