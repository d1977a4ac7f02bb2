"""Checks of a data set: unreadable files, duplicates, training images among the test images, sizes of classes."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from hardpair.data import epoch_order, open_images
from hardpair.data.cache import MOST_SKIPPED
from hardpair.data.cifar10 import FOLDER as CIFAR10_FOLDER
from hardpair.data.decode import decode_all
from hardpair.data.images import Split
from hardpair.data.layout import NAMES, as_folder, list_split, why_unlabelled
from hardpair.data.store import QUARANTINE, is_packed, open_store, read_index
from hardpair.doctor import Doctor, Finding, bad, good, warning
from hardpair.errors import UserError, printable
from hardpair.text import several

SIZE = 32  # pixels; images that are equal at this size are equal
MOST = 10_000  # files of a split that are opened
LISTED = 5  # names in a finding; how many more there are is said
UNBALANCED = 10  # largest class ÷ smallest


@dataclass(frozen=True)
class LookedAt:
    """A split, or a random part of it, as it was found."""

    count: int  # images or files it has
    looked_at: int  # of them, the unreadable included
    names: dict[bytes, list[str]]  # hash of the pixels → the images that have them
    skipped: list[str]  # "file: reason"
    labels: Tensor | None  # int64 (count,)
    classes: tuple[str, ...]
    files: Sequence[str] = ()  # names of all, where they come from files

    def part(self) -> str:
        """Says so if only a part was looked at."""
        whole = self.looked_at == self.count
        return "" if whole else f" among the {self.looked_at:,} of {self.count:,} that were looked at"


def check_images(options: Doctor) -> Iterator[Finding]:
    """How many there are, unusable files, duplicates, sizes of classes, and images in both splits."""
    if options.data is None:
        return
    if options.data.partition(":")[0] == "cifar10" and not (options.data_root / CIFAR10_FOLDER).exists():
        found = f"CIFAR-10 is not below {options.data_root} yet"
        yield warning("images", found, "the first training on it will download 170 MB")
        return
    train = _look(options.data, "train", options.data_root)
    yield _count(train)
    if (folder := _folder_if_packed(options.data)) is not None:
        yield _packed(folder)
    yield _unusable(train, "train")
    yield _duplicates(train)
    yield _balance(train)
    try:
        test = _look(options.data, "test", options.data_root)
    except UserError as error:
        yield warning("test images", str(error), "training needs none, evaluation does")
        return
    yield _unusable(test, "test")
    yield _leaks(train, test)


def _look(data: str, split: Split, root: Path) -> LookedAt:
    if data.partition(":")[0] in NAMES:
        return _look_at_set(data, split, root)
    folder = _folder_if_packed(data)
    return _look_at_folder(data, split) if folder is None else _look_at_packed(folder, split)


def _folder_if_packed(data: str) -> Path | None:
    named = data.partition(":")[0] in NAMES
    return None if named or not is_packed(folder := as_folder(data)) else folder


def _look_at_set(data: str, split: Split, root: Path) -> LookedAt:
    """All images: nothing has to be decoded."""
    images = open_images(data, split, size=SIZE, root=root)
    names = [f"{split} image {row}" for row in range(len(images))]
    hashes = _by_hash(images.pixels.numpy(), names)
    return LookedAt(len(images), len(images), hashes, [], images.labels, images.classes)


def _look_at_folder(data: str, split: Split) -> LookedAt:
    """At most MOST files, drawn at random with a fixed seed."""
    listing = list_split(as_folder(data), split)
    rows = epoch_order(len(listing.names), seed=0, epoch=0)[:MOST].sort().values.tolist()
    drawn = replace(listing, names=[listing.names[row] for row in rows])
    pixels, usable, skipped = decode_all(drawn, SIZE, f"decoding the {split} images of {data}", quiet=True)
    hashes = _by_hash(pixels, [printable(f"{listing.root.name}/{drawn.names[row]}") for row in usable])
    return LookedAt(len(listing.names), len(rows), hashes, skipped, listing.labels, listing.classes, listing.names)


def _look_at_packed(folder: Path, split: Split) -> LookedAt:
    """At most MOST images, as they were packed; unusable files were left out then."""
    images = open_store(folder, split, read_index(folder).size)
    rows = epoch_order(len(images), seed=0, epoch=0)[:MOST].sort().values
    drawn = images.select(rows)
    pixels = (image.numpy() for batch in drawn.batches(256) for image in batch)
    hashes = _by_hash(pixels, [printable(f"{split}/{name}") for name in drawn.files])
    return LookedAt(len(images), len(rows), hashes, [], images.labels, images.classes, images.files)


def _by_hash(pixels: Iterable[NDArray[np.uint8]], names: list[str]) -> dict[bytes, list[str]]:
    found: dict[bytes, list[str]] = {}
    for image, name in zip(pixels, names, strict=True):
        found.setdefault(hashlib.blake2b(image.tobytes(), digest_size=16).digest(), []).append(name)
    return found


def _count(train: LookedAt) -> Finding:
    classes = f"of {len(train.classes)} classes" if train.classes else "without labels"
    return good("images", f"{several(train.count, 'training image')} {classes}")


def _packed(folder: Path) -> Finding:
    index = read_index(folder)
    skipped = sum(packed.skipped for packed in index.splits.values())
    left_out = f", {several(skipped, 'file')} left out then ({QUARANTINE} lists them)" if skipped else ""
    return good("packed", f"squares of {index.size} px{left_out}; hardpair pack --check {folder} looks for damage")


def _unusable(look: LookedAt, split: Split) -> Finding:
    """Training refuses a folder of which too many files are left out."""
    check = f"{split} files"
    if not look.skipped:
        return good(check, f"all can be used{look.part()}")
    found = f"{several(len(look.skipped), 'file')} cannot be used{look.part()}: {_listed(look.skipped)}"
    if len(look.skipped) > MOST_SKIPPED * look.looked_at:
        return bad(check, found, f"fix or remove them: a split with more than {MOST_SKIPPED:.0%} is refused")
    return warning(check, found, "they will be left out; fix or remove them")


def _duplicates(train: LookedAt) -> Finding:
    groups = [names for names in train.names.values() if len(names) > 1]
    if not groups:
        return good("duplicates", f"no training image appears twice{train.part()}")
    copies = several(sum(len(names) - 1 for names in groups), "training image")
    found = f"{copies} too many{train.part()}: {_listed([_listed(names, ' = ') for names in groups])}"
    return warning("duplicates", found, "remove them: a method would push an image away from itself")


def _leaks(train: LookedAt, test: LookedAt) -> Finding:
    part = train.part() or test.part()
    shared = [digest for digest in test.names if digest in train.names]
    if not shared:
        return good("leaks", f"none of {several(test.count, 'test image')} is a training image{part}")
    count = sum(len(test.names[digest]) for digest in shared)
    pairs = [f"{test.names[digest][0]} = {train.names[digest][0]}" for digest in shared]
    found = f"{count:,} of {several(test.count, 'test image')} also to train on{part}: {_listed(pairs)}"
    return bad("leaks", found, "remove them from one side: scores on them are too good")


def _listed(words: Sequence[str], separator: str = "; ") -> str:
    """The first few, and how many more there are."""
    more = len(words) - LISTED
    return separator.join([*words[:LISTED], *([f"and {more:,} more"] if more > 0 else [])])


def _balance(train: LookedAt) -> Finding:
    if train.labels is None and (why := why_unlabelled(train.files)):
        return warning("balance", f"no labels{why}", "move them; pretraining needs no labels, evaluation does")
    if train.labels is None:
        return good("balance", "no labels; pretraining needs none, evaluation does")
    counts = train.labels.bincount(minlength=len(train.classes))
    least, most = int(counts.argmin()), int(counts.argmax())
    found = (
        f"{int(counts[least]):,} ({train.classes[least]}) to {int(counts[most]):,} ({train.classes[most]}) per class"
    )
    if least == most:
        return good("balance", f"{int(counts[most]):,} of each class")
    if counts[most] > UNBALANCED * counts[least]:
        return warning("balance", found, "accuracy over all test images will hide the small classes")
    return good("balance", found)
