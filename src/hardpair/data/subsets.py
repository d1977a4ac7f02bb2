"""Balanced parts of labelled images: held out, drawn, or ImageNet's official lists for few labels."""

import re
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import torch
from torch import Tensor

from hardpair.data.download import check_file, fetch
from hardpair.data.images import Images, generator_for
from hardpair.errors import UserError, require_range, shown

SYNSET = re.compile(r"n\d{8}")
FOLDER = "imagenet_subsets"


@dataclass(frozen=True)
class OfficialList:
    """A list of file names, one a line, as everybody who reports on 1 % or 10 % of ImageNet's labels uses it."""

    file: str
    sha256: str
    size: int  # bytes
    address: str = "https://raw.githubusercontent.com/google-research/simclr/master/imagenet_subsets/"


OFFICIAL = {
    0.01: OfficialList("1percent.txt", "71e82a48ba78252683ae334c4d019ebd5c6e855b9599c1389fbe83eb9549cf17", 260_323),
    0.1: OfficialList("10percent.txt", "6d09de11e7bdaf5b1f3b1f249b6183695f97310cdd20f0c03e7235b6b9392091", 2_603_168),
}


def hold_out(labels: Tensor, *, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Row numbers (kept, held), sorted; of each class `share` is held, to the nearest image.

    A class of two or more has at least one image on either side; a class of one is kept whole, since a class
    that was never seen cannot be recognised.
    """
    if not 0 < share < 1:
        raise UserError(f"share: {share} of the images cannot be held out; give a number between 0 and 1")
    held = torch.zeros(len(labels), dtype=torch.bool)
    for label in sorted(set(labels.tolist())):
        rows = (labels == label).nonzero().flatten()
        count = min(max(1, int(share * len(rows) + 0.5)), len(rows) - 1)
        drawn = torch.randperm(len(rows), generator=generator_for("hold out", int(seed), label))[:count]
        held[rows[drawn]] = True
    return (~held).nonzero().flatten(), held.nonzero().flatten()


def some_of_each(images: Images, data: str, count: str) -> Images:
    """The part that ``data``, "cifar10:10000", names: so many, of each class as many, always the same."""
    wanted = int(count) if count.isdecimal() and len(count) < 20 else 0
    if images.labels is None or not len(images.classes) <= wanted <= len(images):
        bounds = f"{len(images.classes)} to {len(images)}"
        raise UserError(f"data: {shown(data)} is not a number of images that there are; give {bounds}")
    if wanted == len(images):
        return images
    _, chosen = hold_out(images.labels, share=wanted / len(images), seed=0)
    return replace(images.select(chosen), name=f"{data}/train")


def label_subset(images: Images, share: float, *, seed: int, root: Path) -> tuple[Tensor, str]:
    """Rows of the images whose labels may be read, and in words how they were chosen."""
    assert images.labels is not None
    require_range("labels", share, 1e-6, 1)
    if share == 1:
        return torch.arange(len(images)), "all of them"
    if is_imagenet(images) and share in OFFICIAL:
        return _listed(images, OFFICIAL[share], root)
    rows = _drawn(images.labels, share, seed)
    if len(rows) < 2:
        raise UserError(f"labels: {share:g} of the {len(images):,} images of {images.name} are too few to train with")
    return rows, f"class-balanced, drawn with seed {seed}"


def is_imagenet(images: Images) -> bool:
    """Whether the classes are a thousand WordNet numbers, as ImageNet's folders are named."""
    return len(images.classes) == 1000 and all(SYNSET.fullmatch(name) for name in images.classes)


def _drawn(labels: Tensor, share: float, seed: int) -> Tensor:
    """A share of each class, and the whole of a class of one, which could otherwise never be recognised."""
    held = hold_out(labels, share=share, seed=seed)[1]
    alone = (labels.bincount()[labels] == 1).nonzero().flatten()
    rows: Tensor = torch.cat([held, alone]).unique()
    return rows


def _listed(images: Images, wanted: OfficialList, root: Path) -> tuple[Tensor, str]:
    file = root / FOLDER / wanted.file
    if file.exists():
        check_file(file, wanted.sha256, wanted.size, name=str(file))
    else:
        fetch(wanted.address + wanted.file, file, wanted.sha256, wanted.size)
    names = set(file.read_text().split())
    rows = [row for row, name in enumerate(images.files) if PurePosixPath(name).name in names]
    if len(rows) < len(names) / 2:
        raise UserError(
            f"{images.name}: holds {len(rows):,} of the {len(names):,} images that {file} lists; "
            "are its files named as in ImageNet's training set (n01440764_10026.JPEG)?"
        )
    whole = "" if len(rows) == len(names) else f"{len(rows):,} of the {len(names):,} images of "
    return torch.tensor(rows), f"{whole}the official list {wanted.file}"
