"""Whether a set of images is what its owner believes: readable, without repetitions, without leaks, balanced."""

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
from hardpair.doctor.finding import Finding, bad, good, warning
from hardpair.doctor.options import Doctor
from hardpair.errors import UserError, printable
from hardpair.words import several

SIZE = 32  # pixels; images that are equal at this size are equal
MOST = 10_000  # files of a split that are opened
UNBALANCED = 10  # largest class ÷ smallest


@dataclass(frozen=True)
class Look:
    """What was seen of a split."""

    count: int  # images or files it has
    looked_at: int  # of them, the unreadable included
    names: dict[bytes, list[str]]  # hash of the pixels → the images that have them
    skipped: list[str]  # "file: reason"
    labels: Tensor | None  # int64 (count,)
    classes: tuple[str, ...]
    files: Sequence[str] = ()  # names of all, where they come from files

    def part(self) -> str:
        """What has to be said where not all was seen."""
        whole = self.looked_at == self.count
        return "" if whole else f" among the {self.looked_at:,} of {self.count:,} that were looked at"


def check_images(options: Doctor) -> Iterator[Finding]:
    """How many, files that cannot be used, repeated images, sizes of classes, images in both splits."""
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
    yield _repeated(train)
    yield _balance(train)
    try:
        test = _look(options.data, "test", options.data_root)
    except UserError as error:
        yield warning("test images", str(error), "training needs none, evaluation does")
        return
    yield _unusable(test, "test")
    yield _leaks(train, test)


def _look(data: str, split: Split, root: Path) -> Look:
    if data.partition(":")[0] in NAMES:
        return _look_at_set(data, split, root)
    folder = _folder_if_packed(data)
    return _look_at_folder(data, split) if folder is None else _look_at_packed(folder, split)


def _folder_if_packed(data: str) -> Path | None:
    named = data.partition(":")[0] in NAMES
    return None if named or not is_packed(folder := as_folder(data)) else folder


def _look_at_set(data: str, split: Split, root: Path) -> Look:
    """All of it: nothing has to be decoded."""
    images = open_images(data, split, size=SIZE, root=root)
    names = [f"{split} image {row}" for row in range(len(images))]
    hashes = _by_hash(images.pixels.numpy(), names)
    return Look(len(images), len(images), hashes, [], images.labels, images.classes)


def _look_at_folder(data: str, split: Split) -> Look:
    """Of many files some, drawn by chance but always the same."""
    listing = list_split(as_folder(data), split)
    rows = epoch_order(len(listing.names), seed=0, epoch=0)[:MOST].sort().values.tolist()
    drawn = replace(listing, names=[listing.names[row] for row in rows])
    pixels, usable, skipped = decode_all(drawn, SIZE, f"decoding the {split} images of {data}", quiet=True)
    hashes = _by_hash(pixels, [printable(f"{listing.root.name}/{drawn.names[row]}") for row in usable])
    return Look(len(listing.names), len(rows), hashes, skipped, listing.labels, listing.classes, listing.names)


def _look_at_packed(folder: Path, split: Split) -> Look:
    """Of many images some, as they were packed; what could not be used was left out then."""
    images = open_store(folder, split, read_index(folder).size)
    rows = epoch_order(len(images), seed=0, epoch=0)[:MOST].sort().values
    drawn = images.select(rows)
    pixels = (image.numpy() for batch in drawn.batches(256) for image in batch)
    hashes = _by_hash(pixels, [printable(f"{split}/{name}") for name in drawn.files])
    return Look(len(images), len(rows), hashes, [], images.labels, images.classes, images.files)


def _by_hash(pixels: Iterable[NDArray[np.uint8]], names: list[str]) -> dict[bytes, list[str]]:
    found: dict[bytes, list[str]] = {}
    for image, name in zip(pixels, names, strict=True):
        found.setdefault(hashlib.blake2b(image.tobytes(), digest_size=16).digest(), []).append(name)
    return found


def _count(train: Look) -> Finding:
    classes = f"of {len(train.classes)} classes" if train.classes else "without labels"
    return good("images", f"{several(train.count, 'training image')} {classes}")


def _packed(folder: Path) -> Finding:
    index = read_index(folder)
    skipped = sum(packed.skipped for packed in index.splits.values())
    left_out = f", {several(skipped, 'file')} left out then ({QUARANTINE} lists them)" if skipped else ""
    return good("packed", f"squares of {index.size} px{left_out}; hardpair pack --check {folder} looks for damage")


def _unusable(look: Look, split: Split) -> Finding:
    """Training refuses a folder of which too many files are left out."""
    check = f"{split} files"
    if not look.skipped:
        return good(check, f"all can be used{look.part()}")
    first = "; ".join(look.skipped[:3]) + "; …" * (len(look.skipped) > 3)
    found = f"{several(len(look.skipped), 'file')} cannot be used{look.part()}: {first}"
    if len(look.skipped) > MOST_SKIPPED * look.looked_at:
        return bad(check, found, f"mend or remove them: a split with more than {MOST_SKIPPED:.0%} is refused")
    return warning(check, found, "they will be left out; mend or remove them")


def _repeated(train: Look) -> Finding:
    repeated = [names for names in train.names.values() if len(names) > 1]
    if not repeated:
        return good("duplicates", f"no training image appears twice{train.part()}")
    spare, (first, second, *_) = sum(len(names) - 1 for names in repeated), repeated[0]
    found = f"{several(spare, 'training image')} too many{train.part()}; {second}, for one, is {first}"
    return warning("duplicates", found, "remove them: a method would push an image away from itself")


def _leaks(train: Look, test: Look) -> Finding:
    part = train.part() or test.part()
    shared = [digest for digest in test.names if digest in train.names]
    if not shared:
        return good("leaks", f"none of {several(test.count, 'test image')} is a training image{part}")
    count = sum(len(test.names[digest]) for digest in shared)
    here, there = test.names[shared[0]][0], train.names[shared[0]][0]
    found = f"{count:,} of {several(test.count, 'test image')} also to train on{part}; {here}, for one, is {there}"
    return bad("leaks", found, "remove them from one side: scores on them are too good")


def _balance(train: Look) -> Finding:
    if train.labels is None and (why := why_unlabelled(train.files)):
        return warning("balance", f"no labels{why}", "move them; pretraining needs no labels, evaluation does")
    if train.labels is None:
        return good("balance", "no labels; pretraining needs none, evaluation does")
    counts = train.labels.bincount(minlength=len(train.classes))
    least, most = int(counts.argmin()), int(counts.argmax())
    found = f"{int(counts[least]):,} ({train.classes[least]}) to {int(counts[most]):,} ({train.classes[most]}) a class"
    if least == most:
        return good("balance", f"{int(counts[most]):,} of each class")
    if counts[most] > UNBALANCED * counts[least]:
        return warning("balance", found, "accuracy over all test images will hide the small classes")
    return good("balance", found)
