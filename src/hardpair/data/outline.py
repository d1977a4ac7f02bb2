"""What is known of training images without opening one: how many, of how many classes."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from hardpair.data.cifar10 import CLASSES, FILES, Source
from hardpair.data.images import Images
from hardpair.data.layout import list_split
from hardpair.data.names import NAMES, as_folder
from hardpair.data.packed import is_packed, read_index, refuse_other_size
from hardpair.data.sample import sample_facts
from hardpair.data.subsets import some_of_each

IMAGENET, IMAGENET_CLASSES = 1_281_167, 1000


@dataclass(frozen=True)
class Outline:
    """Images of the right number, size and classes, all of them one and the same: they take no memory."""

    images: Images
    source: str  # how their number is known, in words


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
        index = read_index(folder)
        refuse_other_size(folder, index, size)
        return index.splits["train"].images, len(index.splits["train"].classes), ": its index says so"
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
