"""What is kept between runs, so that the next start is instant: a store of each folder's images; features.

Losing the cache costs time only, so no trouble with it ever stops a run.
"""

import functools
import io
import logging
import math
import os
import shutil
import sys
import uuid
from collections.abc import Generator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.lib.format import dtype_to_descr, open_memmap, write_array_header_1_0
from numpy.typing import NDArray

from hardpair import distributed
from hardpair.data.decode import Result, decode_all, decode_batches
from hardpair.data.fill import Batches, UnusableFilesError, check_skipped, files_key, fill_store
from hardpair.data.images import Images, Split, map_file
from hardpair.data.journal import Heading
from hardpair.data.layout import Listing, list_split
from hardpair.data.store import INDEX, QUARANTINE, VERSION, open_store
from hardpair.errors import UserError, printable

MOST_SKIPPED = 0.05  # of the files, without a word of the user; beyond that something is wrong that they should know
T = TypeVar("T", bound=np.generic)
log = logging.getLogger("hardpair")


def read_folder(root: Path, split: Split, size: int, *, skip_broken: float = 0.0) -> Images:
    """One split of a folder of JPEG, PNG, WebP and BMP files as squares of `size` pixels."""
    listing = list_split(root, split)
    if listing.notice:
        _say_once(listing.notice, root)
    name = printable(root.resolve().name)
    return read_listing(listing, f"{name}/{split}", size, most_skipped=max(MOST_SKIPPED, skip_broken))


def read_listing(listing: Listing, name: str, size: int, *, most_skipped: float = MOST_SKIPPED) -> Images:
    """The listed files as squares of `size` pixels, from the cache where it has them.

    Args:
        listing: the files.
        name: what people call them: "photos/train".
        size: pixels a side.
        most_skipped: the share of the files that may be unusable and left out.
    """
    source, _, part = name.rpartition("/")
    label = f"decoding the {part} images of {source}"
    key = files_key(listing.root, listing.names, size)
    split: Split = "test" if part == "test" else "train"

    def batches(_: Split, first: int) -> Generator[list[Result], None, None]:
        return decode_batches(listing, size, label, first=first)

    images = open_cached(key, listing, split, size, batches)
    listed = "" if images is None else f"{cache_folder() / key / QUARANTINE} lists them"
    if images is None:
        pixels, rows, skipped = decode_all(listing, size, label)
        names = tuple(listing.names[row] for row in rows)
        images = _labelled(Images(torch.from_numpy(pixels), None, (), name, tuple(skipped), names), listing, rows)
    check_skipped(listing, images.skipped, most_skipped, f" ({listed})" if listed else "")
    if images.skipped:
        left_out = f"{len(images.skipped):,} of {len(listing.names):,} files of {name} cannot be used and are left out"
        _say_once(f"{left_out}; {listed}" if listed else left_out, listing.root)
    return replace(images, name=name)


def open_cached(key: str, listing: Listing, split: Split, size: int, batches: Batches) -> Images | None:
    """The store of this key, filled where it is missing or damaged; None where the cache cannot be written.

    It has no labels: those of the listing may have another shape, or change while the files do not.
    """
    folder = cache_file(key)
    try:
        if folder is None:
            raise OSError("there is no home folder; set HARDPAIR_CACHE")
        if (folder / INDEX).exists():
            with suppress(UserError):
                return _open(folder, listing, split, size)
            shutil.rmtree(folder, ignore_errors=True)
        heading = Heading(VERSION, size, os.path.realpath(listing.root), key)
        fill_store(folder, {split: replace(listing, labels=None, classes=())}, batches, heading, cache=True)
        return _open(folder, listing, split, size)
    except UnusableFilesError:  # not one file can be used
        raise
    except (UserError, OSError) as error:
        log.warning("the cache cannot be written (%s), so the images will be decoded again next time", error)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)  # half of it would fill the disk for nothing
        return None


def _open(folder: Path, listing: Listing, split: Split, size: int) -> Images:
    images = open_store(folder, split, size)
    left = enumerate(listing.names)  # the store has some of them, in the same order
    rows = [next((row for row, name in left if name == file), -1) for file in images.files]
    if -1 in rows or len(rows) + len(images.skipped) != len(listing.names):
        raise UserError(f"{folder}: holds images of other files")
    return _labelled(images, listing, rows)


def _labelled(images: Images, listing: Listing, rows: list[int]) -> Images:
    labels = None if listing.labels is None else listing.labels[torch.tensor(rows, dtype=torch.int64)]
    return replace(images, labels=labels, classes=listing.classes)


@functools.cache
def _say_once(message: str, root: Path) -> None:  # noqa: ARG001 (the same may be true of another folder)
    if distributed.is_main():
        log.info(message)


def cache_folder() -> Path:
    """$HARDPAIR_CACHE, or else ~/.cache/hardpair."""
    return Path(os.environ.get("HARDPAIR_CACHE") or Path.home() / ".cache" / "hardpair").expanduser()


def cache_file(name: str) -> Path | None:
    """Where an entry of that name lies; None where there is no place for a cache."""
    try:
        return cache_folder() / name
    except RuntimeError:  # no home folder
        return None


def open_known(path: Path, shape: tuple[int, ...], kind: type[T]) -> NDArray[T] | None:
    """The array of a file, mapped; None unless it begins with the very bytes that we would write, and is as long.

    So nothing in a foreign file is interpreted.
    """
    header = _header(shape, kind)
    try:
        if not path.is_file() or path.stat().st_size != len(header) + math.prod(shape) * np.dtype(kind).itemsize:
            return None
        with path.open("rb") as file:
            if file.read(len(header)) != header:
                return None
        return map_file(path, shape, kind, offset=len(header))
    except (OSError, ValueError):
        return None


def _header(shape: tuple[int, ...], kind: type[T]) -> bytes:
    out = io.BytesIO()
    fields = {"descr": dtype_to_descr(np.dtype(kind)), "fortran_order": False, "shape": shape}
    write_array_header_1_0(out, fields)
    return out.getvalue()


def reserve(target: Path | None, shape: tuple[int, ...], kind: type[T], *, lost: str) -> tuple[NDArray[T], Path | None]:
    """Room in a file beside the target, so that large sets need no memory; plain memory where the disk refuses.

    `lost` is what it costs the user that nothing is kept.
    """
    part: Path | None = None
    try:
        if target is None:
            raise OSError("there is no home folder; set HARDPAIR_CACHE")
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.stem}.{uuid.uuid4().hex}.part")
        block = open_memmap(part, mode="w+", dtype=kind, shape=shape)
        _claim(part)
        return block, part
    except (OSError, RuntimeError) as error:
        log.warning("the cache cannot be written (%s), so %s", error, lost)
        discard(part)
        return np.empty(shape, dtype=kind), None


def discard(part: Path | None) -> None:
    """Remove what an unfinished entry leaves behind; after a finished one there is nothing to remove."""
    if part is not None:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _claim(path: Path) -> None:
    """Claim the blocks now: on a full disk, writing to a mapped file kills the process instead of raising."""
    length = path.stat().st_size
    if sys.platform == "linux":
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, length)
    elif shutil.disk_usage(path.parent).free < length:
        raise OSError("the disk is full")
