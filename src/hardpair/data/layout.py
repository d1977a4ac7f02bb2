"""What ``--data`` may be; which files of a folder make up a split, and what class each belongs to."""

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from hardpair.data.images import Split
from hardpair.data.subsets import hold_out
from hardpair.errors import UserError, printable, shown

NAMES = ("sample", "cifar10")  # sets that are no folder
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
    notice: str = ""  # how a folder without splits was divided


def list_split(root: Path, split: Split) -> Listing:
    """The files of a split: of `train/` and `test/` where they exist, else of the folder itself."""
    _check_folder(root)
    folders = _folders_of(root)
    if not _has_splits(folders):
        return _divide(_label(root, _find(root)), split)
    train = _label(folders["train"], _find(folders["train"]))
    if split == "train":
        return train
    if tests := [folders[name] for name in TEST_FOLDERS if name in folders]:
        return _first_with_classes(tests, train)
    names = ", ".join(f"{name}/" for name in TEST_FOLDERS)
    raise NoTestSplitError(f"{root}: has train/ but none of {names}; add one")


def list_whole(root: Path) -> list[tuple[str, Listing]]:
    """All files of a folder, with the name of the split they are of, "" where there are none; nothing is held out."""
    _check_folder(root)
    folders = _folders_of(root)
    tests = [name for name in TEST_FOLDERS if name in folders]
    if not _has_splits(folders):
        return [("", _label(root, _find(root)))]
    train = _label(folders["train"], _find(folders["train"]))
    return [("train", train)] + [
        (name, _label(folders[name], _find(folders[name]), classes=train.classes)) for name in tests
    ]


def _has_splits(folders: Mapping[str, Path]) -> bool:
    """A folder called train is a split beside a test split, or alone; among other folders it is a class (of trains)."""
    return "train" in folders and (len(folders) == 1 or bool(folders.keys() & set(TEST_FOLDERS)))


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
    names = [whole.names[row] for row in rows.tolist()]
    held = len(rows) if split == "test" else len(whole.names) - len(rows)
    notice = f"{held:,} of {len(whole.names):,} images held out for testing" if held else ""
    return Listing(whole.root, names, whole.labels[rows], whole.classes, notice)


def as_folder(data: str) -> Path:
    """The folder that is meant; a word that is neither a path nor a name is refused.

    Recipes come from strangers too, and may name anything.
    """
    if not _is_path(data):
        near = difflib.get_close_matches(data[:100].lower(), NAMES, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}? " if near else ""
        choices = f"{', '.join(NAMES)} or the path of a folder of images"
        raise UserError(f"data: {shown(data)} is unknown; {hint}give {choices}")
    try:
        path = Path(data).expanduser()
        path.exists()
    except (OSError, RuntimeError) as error:  # too long; the home of nobody
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"data: {shown(data)} cannot be the path of a folder ({reason})") from error
    return path


def _is_path(data: str) -> bool:
    """Whether it is a file or folder, or at least written like one."""
    if data == "" or "\0" in data:
        return False
    return os.sep in data or data.startswith(("~", ".")) or os.access(data, os.F_OK)
