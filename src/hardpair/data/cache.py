"""Decoded pixels on disk, so that a folder is decoded once and the next start is instant.

An entry is `<key>.npy` (pixels) and `<key>.json` (which files they are). The JSON is written last: without it
there is no entry. Losing the cache costs time only, so no trouble with it ever stops a run.
"""

import hashlib
import io
import json
import logging
import math
import os
import shutil
import sys
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.lib.format import dtype_to_descr, open_memmap, write_array_header_1_0
from numpy.typing import NDArray

from hardpair.data.mapping import map_file
from hardpair.errors import printable
from hardpair.files import read_json

FORMAT = 4  # raise it when decoding or the files of an entry change
Shape = tuple[int, int, int, int]
Trouble = (OSError, ValueError, KeyError, TypeError, RuntimeError)  # RuntimeError: no home folder
T = TypeVar("T", bound=np.generic)
log = logging.getLogger("hardpair")


@dataclass(frozen=True)
class Decoded:
    """The usable files of a listing."""

    pixels: NDArray[np.uint8]  # (K, 3, S, S)
    rows: list[int]  # (K,) which of the listed files they are
    skipped: tuple[str, ...]  # "file: reason" of the others


Fill = Callable[[NDArray[np.uint8]], tuple[list[int], tuple[str, ...]]]


def cache_folder() -> Path:
    """$HARDPAIR_CACHE, or else ~/.cache/hardpair."""
    return Path(os.environ.get("HARDPAIR_CACHE") or Path.home() / ".cache" / "hardpair").expanduser()


def cache_file(name: str) -> Path | None:
    """Where an entry of that name lies; None where there is no place for a cache."""
    try:
        return cache_folder() / name
    except RuntimeError:  # no home folder
        return None


def cache_key(root: Path, names: Iterable[str], size: int) -> str:
    """Hash of all that the pixels depend on: folder, files (name, bytes, time of change), size asked for."""
    sha = hashlib.sha256(f"{FORMAT} {size}\n".encode() + os.fsencode(os.path.realpath(root)))
    for name in names:
        try:
            # A path object would take as long as all the rest.
            facts = os.stat(os.path.join(root, name))  # noqa: PTH116, PTH118
            stamp = f"{facts.st_size} {facts.st_mtime_ns}"
        except OSError:  # a dangling link: skipped later, with its reason
            stamp = "-"
        sha.update(os.fsencode(name) + f"\0{stamp}\0".encode())
    return sha.hexdigest()


def remember(key: str, shape: Shape, fill: Fill) -> Decoded:
    """The entry of this key; where there is none, `fill` writes the usable images into the first rows of a block."""
    return _load(key, shape) or _build(key, shape, fill)


def _load(key: str, shape: Shape) -> Decoded | None:
    """The entry, or None where it is missing or not what it should be."""
    path = cache_file(f"{key}.npy")
    pixels = None if path is None else open_known(path, shape, np.uint8)
    if path is None or pixels is None:
        return None
    try:
        facts = read_json(path.with_suffix(".json"), most=1_000_000 + 100 * shape[0])
        rows, skipped = list(facts["rows"]), tuple(printable(reason) for reason in facts["skipped"])
        intact = all(type(row) is int for row in rows) and rows == sorted(set(rows) & set(range(shape[0])))
    except Trouble:
        return None
    return Decoded(pixels[: len(rows)], rows, skipped) if intact and len(rows) + len(skipped) == shape[0] else None


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
    except Trouble:
        return None


def _header(shape: tuple[int, ...], kind: type[T]) -> bytes:
    out = io.BytesIO()
    fields = {"descr": dtype_to_descr(np.dtype(kind)), "fortran_order": False, "shape": shape}
    write_array_header_1_0(out, fields)
    return out.getvalue()


def _build(key: str, shape: Shape, fill: Fill) -> Decoded:
    pixels, part = reserve(cache_file(f"{key}.npy"), shape, np.uint8, lost="the images will be decoded again next time")
    try:
        rows, skipped = fill(pixels)
        decoded = Decoded(pixels[: len(rows)], rows, skipped)
        if part is None:
            return decoded
        _publish(key, part, pixels, decoded)
        return _load(key, shape) or decoded
    finally:
        discard(part)


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
            part.with_suffix(".json").unlink(missing_ok=True)


def _claim(path: Path) -> None:
    """Claim the blocks now: on a full disk, writing to a mapped file kills the process instead of raising."""
    length = path.stat().st_size
    if sys.platform == "linux":
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, length)
    elif shutil.disk_usage(path.parent).free < length:
        raise OSError("the disk is full")


def _publish(key: str, part: Path, pixels: NDArray[np.uint8], decoded: Decoded) -> None:
    try:
        assert isinstance(pixels, np.memmap)
        pixels.flush()
        target = cache_folder() / f"{key}.npy"
        facts = {"rows": decoded.rows, "skipped": decoded.skipped}
        part.replace(target)
        draft = part.with_suffix(".json")
        draft.write_text(json.dumps(facts), encoding="utf-8")
        draft.replace(target.with_suffix(".json"))
    except OSError as error:
        log.warning("the cache cannot be written (%s), so the images will be decoded again next time", error)
