"""The images to embed: any folder, a list of files, a packed set or a named set, a batch at a time."""

import hashlib
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hardpair.data import Images, only_size, open_images
from hardpair.data.decode import THREADS, Square, decode_files
from hardpair.data.fill import files_key
from hardpair.data.images import SPLITS
from hardpair.data.layout import NAMES, Listing, as_folder, list_whole
from hardpair.data.names import Names
from hardpair.data.store import is_packed, read_index
from hardpair.embeddings.embedding import Embedding, write_line
from hardpair.errors import UserError, printable
from hardpair.text import several

AHEAD = 2  # batches that are read before they are asked for
Span = tuple[int, int]  # the images from the first number to the one before the second


@dataclass(frozen=True)
class Part:
    """Some images, decoded, and what is known of each."""

    pixels: Tensor  # uint8 (n, 3, S, S)
    facts: list[dict[str, Any]]  # (n,) filename, label, split, sha256, width, height
    lines: list[bytes]  # (n,) the same as lines of images.jsonl
    broken: list[str]  # "file: reason" of those that are left out


def _make_part(pixels: Tensor, facts: list[dict[str, Any]], broken: list[str]) -> Part:
    return Part(pixels, facts, [write_line(known) for known in facts], broken)


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
    def read(self, pool: ThreadPoolExecutor, start: int, stop: int) -> Part:
        """Those from start to stop, decoded by the threads of the pool."""

    def part(self, start: int, stop: int) -> Part:
        """The same, once."""
        with ThreadPoolExecutor(THREADS) as pool:
            return self.read(pool, start, stop)


def read_ahead(source: Source, spans: Iterable[Span]) -> Generator[Part, None, None]:
    """The images of each span; the next ones are decoded while the caller works on these."""
    pool, reader = ThreadPoolExecutor(THREADS), ThreadPoolExecutor(1)
    todo = iter(spans)
    try:
        waiting = deque(reader.submit(source.read, pool, *span) for span in islice(todo, AHEAD))
        while waiting:
            batch = waiting.popleft().result()
            waiting.extend(reader.submit(source.read, pool, *span) for span in islice(todo, 1))
            yield batch
    finally:
        reader.shutdown(cancel_futures=True)
        pool.shutdown()


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
        """Of the names, lengths and times of all files."""
        sha = hashlib.sha256(f"{self.root}\n{self.size}\n".encode("utf-8", "surrogateescape"))
        for split, below, listing in self.groups:
            files = files_key(listing.root, listing.names, self.size)
            sha.update(f"{split} {below} {len(listing.names)} {files}\n".encode("utf-8", "surrogateescape"))
        return sha.hexdigest()

    def read(self, pool: ThreadPoolExecutor, start: int, stop: int) -> Part:
        """Each file is read once: what is hashed is what is decoded."""
        wanted = self._entries(start, stop)
        results = decode_files(pool, [Path(self.root, name) for name, _, _ in wanted], self.size, hashed=True)
        pixels = np.empty((len(wanted), 3, self.size, self.size), np.uint8)
        facts: list[dict[str, Any]] = []
        broken: list[str] = []
        for (name, label, split), result in zip(wanted, results, strict=True):
            if isinstance(result, Square):
                pixels[len(facts)] = result.pixels
                known = {"sha256": result.sha256, "width": result.sides[0], "height": result.sides[1]}
                facts.append(_facts(name, label, split, known))
            else:
                broken.append(f"{printable(name)}: {result}")
        return _make_part(torch.from_numpy(pixels[: len(facts)]), facts, broken)

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

    def read(self, pool: ThreadPoolExecutor, start: int, stop: int) -> Part:  # noqa: ARG002 - nothing to decode
        """Rows of the sets."""
        blocks, facts = [], []
        for split, images in self.splits:
            rows = torch.arange(len(images))[max(start, 0) : max(stop, 0)]
            blocks.append(images.batch(rows))
            for row, pixels in zip(rows.tolist(), blocks[-1].numpy(), strict=True):
                label = None if images.labels is None else images.classes[int(images.labels[row])]
                name = images.files[row] if images.files else f"{split}/{row:06d}.png"
                known = {"sha256": hashlib.sha256(pixels.data).hexdigest()}
                facts.append(_facts(name, label, split, known | {"width": images.size, "height": images.size}))
            start, stop = start - len(images), stop - len(images)
        return _make_part(torch.cat(blocks), facts, [])


def open_source(images: str, *, size: int, least: int, data_root: Path, field: str = "images") -> Source:
    """What ``images`` names.

    Args:
        images: a folder, with or without splits and classes; a text file with a name per line; a packed set; "sample"
            or "cifar10".
        size: pixels of the squares to decode.
        least: pixels that the squares of a packed set need at least.
        data_root: where downloaded sets are kept.
        field: what the user calls ``images``.
    """
    if images.partition(":")[0] in NAMES:
        return Decoded(images, "", [(split, open_images(images, split, size=size, root=data_root)) for split in SPLITS])
    folder = as_folder(images, field=field)
    if is_packed(folder):
        stored = only_size(images)
        side = stored if stored is not None and stored >= least else size
        splits = [split for split in SPLITS if split in read_index(folder).splits]
        opened = [(split, open_images(images, split, size=side, root=data_root)) for split in splits]
        return Decoded(images, os.path.abspath(folder), opened)  # noqa: PTH100
    root, listings = list_whole(folder)
    return Files(images, root, listings, size)


def open_again(embedding: Embedding, *, root: Path | None, data_root: Path) -> Source:
    """The images that an embedding is of, and no others; ``root`` is where they lie now, if they were moved."""
    images, encoder = embedding.manifest["images"], embedding.manifest["encoder"]
    name, size, root = images["source"], encoder["square"], embedding.root if root is None else root
    if images["kind"] == "files":
        splits = dict.fromkeys(embedding.splits)
        return Files(name, root, [(split, _listing(embedding, split, root)) for split in splits], size)
    if name.partition(":")[0] not in NAMES:
        if not is_packed(root):
            raise UserError(f"{root}: there is no packed set; say with --images where that of {embedding.folder} is")
        name = str(root.absolute())
    source = open_source(name, size=size, least=encoder["shown"], data_root=data_root)
    if len(source) != len(embedding):
        raise UserError(f"{name}: has {several(len(source), 'image')} where {embedding.folder} has {len(embedding):,}")
    return source


def _listing(embedding: Embedding, split: str, root: Path) -> Listing:
    """The files of one split."""
    rows = [row for row, name in enumerate(embedding.splits) if name == split]
    labels = torch.from_numpy(embedding.labels[rows])
    names = Names(embedding.files[row] for row in rows)
    return Listing(root, names, None if (labels < 0).any() else labels, embedding.classes)


def _facts(name: str, label: str | None, split: str, known: dict[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {"filename": name}
    facts |= {} if label is None else {"label": label}
    facts |= {"split": split} if split else {}
    return facts | known
