"""The seven sets that representations are transferred to, in their official layouts and splits."""

import math
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from hardpair.data.cache import MOST_SKIPPED, open_cached, read_listing
from hardpair.data.cifar10 import ARCHIVE, FILES, Source, read_cifar10
from hardpair.data.decode import Result, Square, files_at_once
from hardpair.data.fill import files_key
from hardpair.data.images import LEAST_SIZE, Images, Split, generator_for, resize, resized_batches
from hardpair.data.layout import Listing
from hardpair.data.transfer.downloads import DOWNLOADABLE, download_set
from hardpair.data.transfer.lists import list_cars, list_flowers102, list_food101, list_pets, list_sun397, list_voc2007
from hardpair.data.transfer.sets import (
    TRANSFER_SETS,
    LackError,
    Metric,
    MissingSetError,
    TransferSet,
    TransferSplit,
)
from hardpair.errors import UserError, nearest, printable, require_range

__all__ = ["TRANSFER_SETS", "Metric", "MissingSetError", "TransferSet", "TransferSplit", "open_transfer"]

BOTH: TransferSplit = "train+validation"
OFFICIAL_VALIDATION = ("voc2007", "flowers102")
LISTS: dict[str, Callable[[Path, TransferSplit], Listing]] = {
    "food101": list_food101,
    "sun397": list_sun397,
    "cars": list_cars,
    "pets": list_pets,
    "voc2007": list_voc2007,
    "flowers102": list_flowers102,
}


def open_transfer(
    name: str,
    split: TransferSplit,
    *,
    size: int,
    root: Path,
    download: bool = False,
    wanted: TransferSet | None = None,
) -> Images:
    """One split of a set below `root`, as squares of `size` pixels.

    Labels count from 0; those of VOC 2007 are (N, 20) with the official 1, -1 and 0. Training and validation may
    miss a few broken files, which `skipped` names; the test split is whole or refused.
    """
    if name not in TRANSFER_SETS:
        raise UserError(f"transfer set: there is no {name!r}{nearest(name, TRANSFER_SETS)}")
    require_range("size", size, LEAST_SIZE, math.inf)
    wanted = wanted or TRANSFER_SETS[name]
    if name == "cifar10":
        return _read_cifar(split, size, root, wanted, download=download)
    try:
        listing = _list_split(name, split, root / wanted.folder, wanted)
    except MissingSetError:
        if not download or name not in DOWNLOADABLE:
            raise
        download_set(name, root, wanted)
        listing = _list_split(name, split, root / wanted.folder, wanted)
    return read_listing(listing, f"{name}/{split}", size, most_skipped=0 if split == "test" else MOST_SKIPPED)


def _list_split(name: str, split: TransferSplit, folder: Path, wanted: TransferSet) -> Listing:
    """The files of a split and their labels; a set that is not whole is refused before anything is decoded."""
    if split == BOTH and name in OFFICIAL_VALIDATION:
        train, validation = (_list_split(name, part, folder, wanted) for part in ("train", "validation"))
        return _join(train, validation)
    official = split == "test" or name in OFFICIAL_VALIDATION
    try:
        listing = LISTS[name](folder, split if official else "train")
        _check(listing, wanted.classes, wanted.count(split) if official else wanted.train + wanted.validation)
    except LackError as lack:
        raise MissingSetError(wanted, folder, str(lack)) from lack
    return listing if official or split == BOTH else _divide(listing, split, wanted.validation)


def _check(listing: Listing, classes: int, images: int) -> None:
    if len(listing.classes) != classes:
        raise LackError(f"{len(listing.classes):,} classes listed where the set has {classes:,}")
    if len(listing.names) != images:
        raise LackError(f"{len(listing.names):,} images listed where the set has {images:,}")
    lost = [name for name in listing.names if not (listing.root / name).is_file()]
    if lost:
        raise LackError(f"{images:,} images listed, {len(lost):,} not found, the first is {printable(lost[0])}")


def _join(first: Listing, second: Listing) -> Listing:
    """Two parts of a set, one after the other."""
    assert first.labels is not None
    assert second.labels is not None
    labels = torch.cat([first.labels, second.labels])
    return Listing(first.root, [*first.names, *second.names], labels, first.classes)


def _divide(whole: Listing, split: TransferSplit, held: int) -> Listing:
    """Training or validation out of the official training part, the same at every call."""
    assert whole.labels is not None
    rows = hold_out_number(whole.labels, total=held, seed=0)[split == "validation"]
    return Listing(whole.root, [whole.names[row] for row in rows.tolist()], whole.labels[rows], whole.classes)


def hold_out_number(labels: Tensor, *, total: int, seed: int) -> tuple[Tensor, Tensor]:
    """Row numbers (kept, held), sorted; `total` images are held, equally many of every class.

    Where they cannot be shared out evenly, the largest classes give one image more. So Cars holds out 9 images
    of its 82 largest classes and 8 of the other 114: 1,650 exactly.
    """
    sizes = labels.bincount().tolist()
    order = sorted(set(labels.tolist()), key=lambda label: (-sizes[label], label))
    each, more = divmod(total, len(order))
    held = torch.zeros(len(labels), dtype=torch.bool)
    for place, label in enumerate(order):
        rows = (labels == label).nonzero().flatten()
        drawn = torch.randperm(len(rows), generator=generator_for("hold out", int(seed), label))
        held[rows[drawn[: each + (place < more)]]] = True
    return (~held).nonzero().flatten(), held.nonzero().flatten()


def _read_cifar(split: TransferSplit, size: int, root: Path, wanted: TransferSet, *, download: bool) -> Images:
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
    """Into the cache, since 45,000 images of 224 pixels would fill 7 GB of memory."""
    if images.size == size:
        return images

    def batches(_: Split, first: int) -> Generator[list[Result], None, None]:
        for part in resized_batches(images, size, files_at_once(size), first=first):
            yield [Square(image.numpy(), enlarged=False, sides=(size, size)) for image in part]

    listing = Listing(folder, [str(row) for row in range(len(images))], None, ())
    key = files_key(folder, [images.digest()], size)  # in place of file names: what exactly was enlarged
    kept = open_cached(key, listing, "train", size, batches)
    return resize(images, size) if kept is None else replace(images, block=kept.block, rows=None)
