"""Where images come from: the bundled sample, CIFAR-10, any folder of pictures, packed or not, or a list of files."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from hardpair.data.cache import read_folder
from hardpair.data.cifar10 import CLASSES, FILES, Source, read_cifar10
from hardpair.data.decode import least_side
from hardpair.data.images import LEAST_SIZE, Images, Split, epoch_order, resize
from hardpair.data.layout import NAMES, as_folder, list_split
from hardpair.data.sample import read_sample, sample_facts
from hardpair.data.store import is_packed, open_store, read_index, split_of
from hardpair.data.subsets import hold_out, label_subset, some_of_each
from hardpair.errors import UserError, require_range

__all__ = [
    "Images",
    "epoch_order",
    "hold_out",
    "label_subset",
    "only_size",
    "open_images",
    "outline_images",
    "shorter_side",
]

IMAGENET, IMAGENET_CLASSES = 1_281_167, 1000
CIFAR_SIDE = 32  # pixels; the sample's too


def open_images(data: str, split: Split, *, size: int, root: Path, skip_broken: float = 0.0) -> Images:
    """One split of a data set as squares of `size` pixels.

    Args:
        data: "sample", "cifar10" or the path of a folder, packed or not, or of a list of files. "cifar10:10000" has so
            many of the training images, of each class as many, and all test images.
        split: "train" or "test".
        size: pixels a side.
        root: where CIFAR-10 is kept.
        skip_broken: the share of a folder's files that may be unreadable and left out, from 0 to 1; up to 5 % always
            may. For a packed set this was decided when it was packed.
    """
    if size < LEAST_SIZE:
        raise UserError(f"size: {size} pixels are too few; give at least {LEAST_SIZE}")
    require_range("skip_broken", skip_broken, 0, 1)
    name, colon, count = data.partition(":")
    if name in NAMES:
        images = read_sample(split) if name == "sample" else read_cifar10(root, split)
        return resize(some_of_each(images, data, count) if colon and split == "train" else images, size)
    folder = as_folder(data)
    return (
        open_store(folder, split, size)
        if is_packed(folder)
        else read_folder(folder, split, size, skip_broken=skip_broken)
    )


@dataclass(frozen=True)
class Outline:
    """Images of the right number, size and classes, all of them one and the same: they take no memory."""

    images: Images
    source: str  # how their number is known, in words


SEEN = 200  # files whose size tells that of the others


def shorter_side(data: str) -> int:
    """Median of the shorter sides of some training images in pixels; only the beginnings of files are read."""
    name = data.partition(":")[0]
    if name in NAMES:
        return CIFAR_SIDE
    if (size := only_size(data)) is not None:
        return size
    folder = as_folder(data)
    listing = list_split(folder, "train")
    every = max(1, len(listing.names) // SEEN)
    sides = sorted(side for name in listing.names[::every] if (side := least_side(listing.root / name)))
    if not sides:
        raise UserError(f"{folder}: none of {len(listing.names[::every]):,} files can be read as an image")
    return sides[len(sides) // 2]


def only_size(data: str) -> int | None:
    """The one size that a packed set has; None where images can have any."""
    if data.partition(":")[0] in NAMES or not is_packed(folder := as_folder(data)):
        return None
    return read_index(folder).size


def outline_images(data: str, *, size: int, count: int | None = None) -> Outline:
    """The training images that `open_images` would give, or ``count`` of them; nothing is decoded or downloaded."""
    found, classes, why = _known(data, size) if count is None else (count, _classes(data), ", as given")
    return Outline(_blank(data, found, classes, size), f"{found:,} images of {data}{why}")


def _known(data: str, size: int) -> tuple[int, int, str]:
    """How many, of how many classes, and how this is known."""
    name, colon, part = data.partition(":")
    if name in NAMES:
        return _part(name, data, part) if colon else _whole(name), _classes(data), ""
    if data == "imagenet" and not Path(data).exists():
        why = ": there is no such folder here, so the number is ImageNet's (--images gives another)"
        return IMAGENET, IMAGENET_CLASSES, why
    folder = as_folder(data)
    if is_packed(folder):
        stored = split_of(folder, read_index(folder), "train", size)
        return stored.images, len(stored.classes), ": its index says so"
    listing = list_split(folder, "train")
    return len(listing.names), len(listing.classes), ": files counted, all taken to be usable"


def _classes(data: str) -> int:
    return len(CLASSES) if data.partition(":")[0] in NAMES else IMAGENET_CLASSES


def _blank(data: str, count: int, classes: int, size: int) -> Images:
    """In colour, since a method may refuse grey images."""
    pixels = torch.tensor([0, 128, 255], dtype=torch.uint8).view(1, 3, 1, 1).expand(count, 3, size, size)
    labels = torch.zeros(1, dtype=torch.long).expand(count) if classes else None
    return Images(pixels, labels, tuple(map(str, range(classes))), name=f"{data}/train")


def _whole(name: str) -> int:
    if name == "cifar10":
        return len(FILES["train"]) * Source().records
    facts = sample_facts()
    return len(facts["classes"]) * int(facts["splits"]["train"]["per_class"])


def _part(name: str, data: str, part: str) -> int:
    """Each class gives as many, so that not every number can be had: "sample:305" has 310."""
    whole = _blank(name, _whole(name), len(CLASSES), size=1)
    return len(some_of_each(replace(whole, labels=torch.arange(len(whole)) % len(CLASSES)), data, part))
