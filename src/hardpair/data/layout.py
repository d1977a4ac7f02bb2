"""Which files of a folder make up a split, and what class each belongs to."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from hardpair.data.images import Split
from hardpair.data.subsets import hold_out
from hardpair.errors import UserError, printable

EXTENSIONS = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp")
TEST_FOLDERS = ("test", "val", "valid", "validation")
HELD_SHARE = 0.2  # of a folder that brings no test split of its own
NEEDED = "a test split needs folders train/ and test/, or one sub-folder for each of at least two classes"


class NoTestSplitError(UserError):
    """A folder has no test split, which training does not need."""


@dataclass(frozen=True)
class Listing:
    """The files of one split in their fixed order."""

    root: Path
    names: list[str]  # relative to root, with forward slashes, sorted
    labels: Tensor | None  # int64 (N,)
    classes: tuple[str, ...]


def list_split(root: Path, split: Split) -> Listing:
    """The files of a split: of `train/` and `test/` where they exist, else of the folder itself."""
    _check_folder(root)
    folders = _folders_of(root)
    # A folder called train is a split only beside a test split or alone; among other folders it is a class (of trains).
    if "train" not in folders or (len(folders) > 1 and not folders.keys() & set(TEST_FOLDERS)):
        return _divide(_label(root, _find(root)), split)
    train = _label(folders["train"], _find(folders["train"]))
    if split == "train":
        return train
    if tests := [folders[name] for name in TEST_FOLDERS if name in folders]:
        return _first_with_classes(tests, train)
    names = ", ".join(f"{name}/" for name in TEST_FOLDERS)
    raise NoTestSplitError(f"{root}: has train/ but none of {names}; add one")


def _first_with_classes(tests: Sequence[Path], train: Listing) -> Listing:
    """Or else the first: beside a labelled val/ there is often a test/ whose labels were never published."""
    flat: list[Listing] = []
    for test in tests:
        listing = _label(test, _find(test), classes=train.classes)
        if train.labels is None or any("/" in name for name in listing.names):
            return listing
        flat.append(listing)
    return flat[0]


def _check_folder(root: Path) -> None:
    if not root.exists():
        raise UserError(f"{root}: no such folder")
    if not root.is_dir():
        raise UserError(f"{root}: is a file; give the folder that holds the images")


def _folders_of(root: Path) -> dict[str, Path]:
    """Sub-folders by lower-case name: Train/ and TEST/ are splits too, and not classes."""
    try:
        return {path.name.lower(): path for path in sorted(root.iterdir()) if path.is_dir()}
    except OSError as error:
        raise UserError(f"{root}: cannot be read ({error.strerror})") from error


def _find(root: Path) -> list[str]:
    """Names of all image files below a folder, by extension; hidden ones left out, links followed once."""
    names: list[str] = []
    seen: set[str] = set()
    for folder, below, files in os.walk(root, followlinks=True, onerror=_refuse):
        below[:] = sorted(name for name in below if not name.startswith("."))
        real = os.path.realpath(folder)
        if real in seen:  # a link that leads back up would never end
            below.clear()
            continue
        seen.add(real)
        chosen = [name for name in files if name.lower().endswith(EXTENSIONS) and not name.startswith(".")]
        names += [Path(folder, name).relative_to(root).as_posix() for name in chosen]
    if not names:
        raise UserError(f"{root}: holds no images ({', '.join(EXTENSIONS)})")
    return sorted(names)


def _refuse(error: OSError) -> None:
    raise UserError(f"{error.filename}: cannot be read ({error.strerror})") from error


def _label(root: Path, names: list[str], classes: tuple[str, ...] = ()) -> Listing:
    """Classes are first-level sub-folders; `classes` are those of the training split, which a test split must share."""
    tops = [name.partition("/")[0] for name in names]
    own = tuple(sorted(set(tops)))
    if any("/" not in name for name in names) or (len(own) < 2 and not classes):
        return Listing(root, names, None, ())
    if classes and (unknown := sorted(set(own) - set(classes))):
        raise UserError(
            f"{printable(str(root / unknown[0]))}: the training images have no such class; rename or remove it"
        )
    classes = classes or own
    number = {name: label for label, name in enumerate(classes)}
    return Listing(root, names, torch.tensor([number[top] for top in tops]), classes)


def beside_classes(names: Sequence[str]) -> str:
    """In brackets, the pictures for which `_label` gives none a label, though others lie in folders; or nothing."""
    beside = [name for name in names if "/" not in name]
    if not beside or len({name.partition("/")[0] for name in names if "/" in name}) < 2:
        return ""
    more = f" and {len(beside) - 1:,} more" if len(beside) > 1 else ""
    return f" (none counts as labelled while pictures lie beside the folders of classes: {beside[0]}{more})"


def _divide(whole: Listing, split: Split) -> Listing:
    """Hold a fixed, balanced part out of a folder without splits, so that training and test never overlap."""
    if whole.labels is None:
        if split == "train":
            return whole
        raise NoTestSplitError(f"{whole.root}: {NEEDED}{beside_classes(whole.names)}")
    rows = hold_out(whole.labels, share=HELD_SHARE, seed=0)[split == "test"]
    if not len(rows):
        raise NoTestSplitError(f"{whole.root}: no class has two images, so none can be held out; {NEEDED}")
    return Listing(whole.root, [whole.names[row] for row in rows.tolist()], whole.labels[rows], whole.classes)
