"""What ``--data`` may be; which files of a folder make up a split, and what class each belongs to."""

import difflib
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from hardpair import distributed
from hardpair.data.images import Split
from hardpair.data.names import Names
from hardpair.data.subsets import hold_out
from hardpair.data.tree import Tree, open_tree
from hardpair.errors import UserError, printable, shown
from hardpair.text import several

NAMES = ("sample", "cifar10")  # sets that are no folder
TEST_FOLDERS = ("test", "val", "valid", "validation")
HELD_SHARE = 0.2  # of a folder that brings no test split of its own
NEEDED = "a test split needs folders train/ and test/, or one sub-folder for each of at least two classes"
log = logging.getLogger("hardpair")


class NoTestSplitError(UserError):
    """A folder has no test split, which training does not need."""


@dataclass(frozen=True)
class Listing:
    """The files of one split in their fixed order."""

    root: Path
    names: Sequence[str]  # relative to root, with forward slashes, sorted
    labels: Tensor | None  # int64 (N,)
    classes: tuple[str, ...]
    notice: str = ""  # how a folder without splits was divided


def list_split(path: Path, split: Split) -> Listing:
    """The files of a split: of `train/` and `test/` where they exist, else of the whole folder, or list of files."""
    tree = open_tree(path)
    folders = tree.folders()
    if not _has_splits(folders):
        return _divide(_label(tree, tree.root), split)
    train = _label(tree, folders["train"])
    if split == "train":
        return train
    if tests := [folders[name] for name in TEST_FOLDERS if name in folders]:
        return _first_with_classes(tree, tests, train)
    names = ", ".join(f"{name}/" for name in TEST_FOLDERS)
    raise NoTestSplitError(f"{path}: has train/ but none of {names}; add one")


def list_whole(path: Path) -> tuple[Path, list[tuple[str, Listing]]]:
    """The folder, and all its files by the name of their split, "" where there are none; nothing is held out."""
    tree = open_tree(path)
    folders = tree.folders()
    if _has_splits(folders):
        train = _label(tree, folders["train"])
        tests = [name for name in TEST_FOLDERS if name in folders]
        found = [("train", train)] + [(name, _label(tree, folders[name], classes=train.classes)) for name in tests]
    else:
        found = [("", _label(tree, tree.root))]
    if tree.unread and distributed.is_main():
        what = ", ".join(several(count, f"{ending} file") for ending, count in sorted(tree.unread.items()))
        log.info("%s: %s left out; JPEG, PNG, WebP, BMP and GIF are read", path, what)
    return tree.root, found


def _has_splits(folders: Mapping[str, Path]) -> bool:
    """A folder called train is a split beside a test split, or alone; among other folders it is a class (of trains)."""
    return "train" in folders and (len(folders) == 1 or bool(folders.keys() & set(TEST_FOLDERS)))


def _first_with_classes(tree: Tree, tests: Sequence[Path], train: Listing) -> Listing:
    """Or else the first: beside a labelled val/ there is often a test/ whose labels were never published."""
    flat: list[Listing] = []
    for test in tests:
        listing = _label(tree, test, classes=train.classes)
        if train.labels is None or any("/" in name for name in listing.names):
            return listing
        flat.append(listing)
    return flat[0]


def _label(tree: Tree, folder: Path, classes: tuple[str, ...] = ()) -> Listing:
    """Classes are first-level sub-folders; `classes` are those of the training split, which a test split must share."""
    names = tree.find(folder)
    if any("/" not in name for name in names):
        return Listing(folder, names, None, ())
    own = tuple(sorted({name.partition("/")[0] for name in names}))
    if len(own) < 2 and not classes:
        return Listing(folder, names, None, ())
    if classes and (unknown := sorted(set(own) - set(classes))):
        raise UserError(
            f"{printable(str(folder / unknown[0]))}: the training images have no such class; rename or remove it"
        )
    classes = classes or own
    number = {name: label for label, name in enumerate(classes)}
    labels = np.fromiter((number[name.partition("/")[0]] for name in names), np.int64, len(names))
    return Listing(folder, names, torch.from_numpy(labels), classes)


def why_unlabelled(names: Sequence[str]) -> str:
    """In brackets, why files in sub-folders have no labels all the same; nothing where there are no sub-folders."""
    beside = [name for name in names if "/" not in name]
    folders = sorted({name.partition("/")[0] for name in names if "/" in name})
    if len(folders) == 1 and not beside:
        return f" (one folder is not two classes: all images lie in {folders[0]}/)"
    if not beside or len(folders) < 2:
        return ""
    more = f" and {len(beside) - 1:,} more" if len(beside) > 1 else ""
    return f" (none counts as labelled while pictures lie beside the folders of classes: {beside[0]}{more})"


def _divide(whole: Listing, split: Split) -> Listing:
    """Hold a fixed, balanced part out of a folder without splits, so that training and test never overlap."""
    if whole.labels is None:
        if split == "train":
            return whole
        raise NoTestSplitError(f"{whole.root}: {NEEDED}{why_unlabelled(whole.names)}")
    rows = hold_out(whole.labels, share=HELD_SHARE, seed=0)[split == "test"]
    if not len(rows):
        raise NoTestSplitError(f"{whole.root}: no class has two images, so none can be held out; {NEEDED}")
    names = Names(whole.names[row] for row in rows.tolist())
    held = len(rows) if split == "test" else len(whole.names) - len(rows)
    notice = f"{held:,} of {len(whole.names):,} images held out for testing" if held else ""
    return Listing(whole.root, names, whole.labels[rows], whole.classes, notice)


def as_folder(data: str, *, field: str = "data") -> Path:
    """The folder that is meant; a word that is neither a path nor a name is refused, by the name of its field.

    Recipes come from strangers too, and may name anything.
    """
    if not _is_path(data):
        near = difflib.get_close_matches(data[:100].lower(), NAMES, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}? " if near else ""
        choices = f"{', '.join(NAMES)} or the path of a folder of images, or of a list of files"
        raise UserError(f"{field}: {shown(data)} is unknown; {hint}give {choices}")
    try:
        path = Path(data).expanduser()
        path.exists()
    except (OSError, RuntimeError) as error:  # too long; the home of nobody
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"{field}: {shown(data)} cannot be the path of a folder ({reason})") from error
    return path


def _is_path(data: str) -> bool:
    """Whether it is a file or folder, or at least written like one."""
    if data == "" or "\0" in data:
        return False
    return os.sep in data or data.startswith(("~", ".")) or os.access(data, os.F_OK)
