"""The images to embed: any folder, a list of files, a packed set or a named set, a part at a time."""

import functools
import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hardpair.data import Images, only_size, open_images
from hardpair.data.decode import THREADS, UnusableError, read_square
from hardpair.data.images import SPLITS
from hardpair.data.layout import NAMES, Listing, as_folder, list_whole
from hardpair.data.store import is_packed, read_index
from hardpair.errors import UserError, printable

LISTS = (".txt", ".lst", ".list")  # files that hold names of images, one per line
MOST_BYTES = 1 << 32  # of such a list


@dataclass(frozen=True)
class Part:
    """Some images, decoded, and what is known of each."""

    pixels: Tensor  # uint8 (n, 3, S, S)
    facts: list[dict[str, Any]]  # (n,) filename, label, split, sha256, width, height
    broken: list[str]  # "file: reason" of those that are left out


class Source(ABC):
    """Images in a fixed order."""

    name: str  # as it was given
    root: str  # absolute; what names are relative to
    kind: str  # "files", or "pixels" of a set that is decoded already

    @abstractmethod
    def __len__(self) -> int:
        """How many, broken ones included."""

    @abstractmethod
    def key(self) -> str:
        """Hash of what tells whether these are the same images as before."""

    @abstractmethod
    def part(self, start: int, stop: int) -> Part:
        """Those from start to stop."""


class Files(Source):
    """Files that are decoded as they are needed, by threads."""

    kind = "files"

    def __init__(self, name: str, root: Path, listings: Sequence[tuple[str, Listing]], size: int) -> None:
        self.name, self.root, self.size = name, os.path.abspath(root), size  # noqa: PTH100 - links stay links
        self.groups = [(split, os.path.relpath(listing.root, root), listing) for split, listing in listings]
        self.count = sum(len(listing.names) for _, _, listing in self.groups)

    def __len__(self) -> int:
        return self.count

    def key(self) -> str:
        """Of all names; a picture that changed is found by its own hash."""
        sha = hashlib.sha256(f"{self.root}\n{self.size}\n".encode("utf-8", "surrogateescape"))
        for split, below, listing in self.groups:
            sha.update(f"{split} {below} {len(listing.names)}\n".encode("utf-8", "surrogateescape"))
            for name in listing.names:
                sha.update(name.encode("utf-8", "surrogateescape") + b"\0")
        return sha.hexdigest()

    def part(self, start: int, stop: int) -> Part:
        """Decoded by threads."""
        wanted = self._entries(start, stop)
        with ThreadPoolExecutor(THREADS) as pool:
            results = list(pool.map(functools.partial(_read, self.root, self.size), [name for name, _, _ in wanted]))
        good = [(entry, result) for entry, result in zip(wanted, results, strict=True) if not isinstance(result, str)]
        broken = [
            f"{printable(name)}: {result}"
            for (name, _, _), result in zip(wanted, results, strict=True)
            if isinstance(result, str)
        ]
        facts = [_facts(name, label, split, known) for (name, label, split), (_, known) in good]
        pixels = np.stack([square for _, (square, _) in good]) if good else np.empty((0, 3, self.size, self.size), "u1")
        return Part(torch.from_numpy(pixels), facts, broken)

    def _entries(self, start: int, stop: int) -> list[tuple[str, str | None, str]]:
        """Name below the root, label and split of each file."""
        entries: list[tuple[str, str | None, str]] = []
        for split, below, listing in self.groups:
            prefix = "" if below == "." else f"{Path(below).as_posix()}/"
            for row in range(max(start, 0), min(stop, len(listing.names))):
                label = None if listing.labels is None else listing.classes[int(listing.labels[row])]
                entries.append((prefix + listing.names[row], label, split))
            start, stop = start - len(listing.names), stop - len(listing.names)
        return entries


class Decoded(Source):
    """Images whose pixels are there already: a named or a packed set."""

    kind = "pixels"

    def __init__(self, name: str, root: str, splits: Sequence[tuple[str, Images]]) -> None:
        self.name, self.root, self.splits = name, root, splits

    def __len__(self) -> int:
        return sum(len(images) for _, images in self.splits)

    def key(self) -> str:
        """Of the pixels."""
        return hashlib.sha256(" ".join(images.digest() for _, images in self.splits).encode()).hexdigest()

    def part(self, start: int, stop: int) -> Part:
        """Rows of the sets."""
        blocks, facts = [], []
        for split, images in self.splits:
            rows = torch.arange(len(images))[max(start, 0) : max(stop, 0)]
            blocks.append(images.batch(rows))
            for row, pixels in zip(rows.tolist(), blocks[-1], strict=True):
                label = None if images.labels is None else images.classes[int(images.labels[row])]
                name = images.files[row] if images.files else f"{split}/{row:06d}.png"
                known = {"sha256": hashlib.sha256(pixels.contiguous().numpy().data).hexdigest()}
                facts.append(_facts(name, label, split, known | {"width": images.size, "height": images.size}))
            start, stop = start - len(images), stop - len(images)
        return Part(torch.cat(blocks), facts, [])


def open_source(images: str, *, size: int, least: int, data_root: Path) -> Source:
    """What ``images`` names.

    Args:
        images: a folder, with or without splits and classes; a text file with a name per line; a packed set; "sample"
            or "cifar10".
        size: pixels of the squares to decode.
        least: pixels that the squares of a packed set need at least.
        data_root: where downloaded sets are kept.
    """
    if images.partition(":")[0] in NAMES:
        return Decoded(images, "", [(split, open_images(images, split, size=size, root=data_root)) for split in SPLITS])
    if Path(images).is_file():
        return _listed(images, size)
    folder = as_folder(images)
    if is_packed(folder):
        stored = only_size(images)
        side = stored if stored is not None and stored >= least else size
        splits = [split for split in SPLITS if split in read_index(folder).splits]
        opened = [(split, open_images(images, split, size=side, root=data_root)) for split in splits]
        return Decoded(images, os.path.abspath(folder), opened)  # noqa: PTH100
    return Files(images, folder, list_whole(folder), size)


def _listed(file: str, size: int) -> Files:
    """The files that a list names, relative to the list, or to the root of the file system."""
    path = Path(file)
    if path.suffix.lower() not in LISTS:
        raise UserError(f"{file}: is a file; give a folder of images, or a list of files (one per line) called .txt")
    if path.stat().st_size > MOST_BYTES:
        raise UserError(f"{file}: is too long for a list of files; split it")
    lines = path.read_bytes().decode("utf-8", "surrogateescape").split("\n")
    names = list(dict.fromkeys(line.rstrip("\r") for line in lines if line.strip()))
    if not names:
        raise UserError(f"{file}: names no files; give one per line")
    return Files(file, path.parent, [("", Listing(path.parent, names, None, ()))], size)


def _read(root: str, size: int, name: str) -> Any:
    """The square, and hash and sides of the file; or why not."""
    path = Path(root, name)
    try:
        square = read_square(path, size)
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    except UnusableError as reason:
        return str(reason)
    except OSError as error:  # it went away between the two
        return error.strerror or "cannot be read"
    return square.pixels, {"sha256": sha256, "width": square.sides[0], "height": square.sides[1]}


def _facts(name: str, label: str | None, split: str, known: dict[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {"filename": name}
    facts |= {} if label is None else {"label": label}
    facts |= {"split": split} if split else {}
    return facts | known
