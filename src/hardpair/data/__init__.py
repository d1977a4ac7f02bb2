"""Where images come from: the bundled sample, CIFAR-10, or any folder of pictures."""

import difflib
import os
from dataclasses import replace
from pathlib import Path

import torch
from torch.nn import functional

from hardpair.data.cifar10 import read_cifar10
from hardpair.data.folder import read_folder
from hardpair.data.images import Images, Split
from hardpair.data.label_lists import label_subset
from hardpair.data.order import epoch_order
from hardpair.data.sample import read_sample
from hardpair.data.subsets import hold_out
from hardpair.errors import UserError, shown

__all__ = ["Images", "epoch_order", "hold_out", "label_subset", "open_images"]

NAMES = ("sample", "cifar10")
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
        return _resize(_some(images, data, count) if colon and split == "train" else images, size)
    if not _is_path(data):
        near = difflib.get_close_matches(data[:100].lower(), NAMES, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UserError(
            f"data: {shown(data)} is unknown; {hint}give {', '.join(NAMES)} or the path of a folder of images"
        )
    return read_folder(_folder(data), split, size)


def _some(images: Images, data: str, count: str) -> Images:
    """So many of each class, always the same."""
    wanted = int(count) if count.isdecimal() and len(count) < 20 else 0
    if images.labels is None or not len(images.classes) <= wanted <= len(images):
        bounds = f"{len(images.classes)} to {len(images)}"
        raise UserError(f"data: {shown(data)} is not a number of images that there are; give {bounds}")
    if wanted == len(images):
        return images
    _, chosen = hold_out(images.labels, share=wanted / len(images), seed=0)
    return replace(images.select(chosen), name=f"{data}/train")


def _is_path(data: str) -> bool:
    """Whether it is a file or folder, or at least written like one."""
    if data == "" or "\0" in data:
        return False
    return os.sep in data or data.startswith(("~", ".")) or os.access(data, os.F_OK)


def _folder(data: str) -> Path:
    """The path, with ~ for the home folder; recipes come from strangers too, and may name anything."""
    try:
        path = Path(data).expanduser()
        path.exists()
    except (OSError, RuntimeError) as error:  # too long; the home of nobody
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"data: {shown(data)} cannot be the path of a folder ({reason})") from error
    return path


def _resize(images: Images, size: int) -> Images:
    """Antialiased bicubic, in parts so that the float copies stay small."""
    if images.size == size:
        return images
    pixels = torch.empty(len(images), 3, size, size, dtype=torch.uint8)
    for start, part in zip(range(0, len(images), 1000), images.batches(1000), strict=True):
        pixels[start : start + 1000] = functional.interpolate(part, (size, size), mode="bicubic", antialias=True)
    return replace(images, block=pixels, rows=None)
