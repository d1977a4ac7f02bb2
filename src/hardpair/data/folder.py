"""Any folder of pictures: listed, decoded once, remembered."""

import os
import warnings
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from hardpair.data.cache import cache_key, remember
from hardpair.data.decode import UnusableError, decode_file
from hardpair.data.images import Images, Split
from hardpair.data.layout import Listing, list_split
from hardpair.data.mapping import row_writer
from hardpair.data.progress import progress
from hardpair.errors import UserError, printable

MOST_SKIPPED = 0.05  # of the files; beyond that something is wrong that the user should know
THREADS = min(16, os.cpu_count() or 1)
AT_ONCE = 256  # files handed to the threads at a time, so that finished images do not pile up
T = TypeVar("T")
Result = NDArray[np.uint8] | str  # the pixels of a file, or the reason why there are none


def read_folder(root: Path, split: Split, size: int) -> Images:
    """One split of a folder of JPEG, PNG, WebP and BMP files as squares of `size` pixels."""
    return read_listing(list_split(root, split), printable(f"{root.resolve().name}/{split}"), size)


def read_listing(listing: Listing, name: str, size: int, *, whole: bool = False) -> Images:
    """The listed files as squares of `size` pixels; `whole` refuses to leave out even one."""

    def fill(pixels: NDArray[np.uint8]) -> tuple[list[int], tuple[str, ...]]:
        rows, skipped = decode_all(listing, pixels, name)
        check_skipped(listing, skipped, whole=whole)
        return rows, tuple(skipped)

    key = cache_key(listing.root, listing.names, size)
    decoded = remember(key, (len(listing.names), 3, size, size), fill)
    labels = None if listing.labels is None else listing.labels[torch.tensor(decoded.rows)]
    return Images(
        torch.from_numpy(decoded.pixels),
        labels,
        listing.classes,
        name=name,
        skipped=decoded.skipped,
        files=tuple(listing.names[row] for row in decoded.rows),
    )


def decode_all(listing: Listing, pixels: NDArray[np.uint8], name: str) -> tuple[list[int], list[str]]:
    """Fill the first rows of `pixels` with the usable files; say which they are, and why not the others."""
    rows: list[int] = []
    skipped: list[str] = []

    def store(place: int, result: Result) -> str | None:
        if isinstance(result, str):
            return result
        write(len(rows) + place, result)  # the thread that decoded it does, for that takes time, too
        return None

    with (
        row_writer(pixels) as write,
        closing(decode_batches(listing, pixels.shape[-1], f"decoding {name}", store)) as batches,
    ):
        for reasons in batches:
            file, row = len(rows) + len(skipped), len(rows)  # the first of this batch
            for place, reason in enumerate(reasons):
                if reason is not None:
                    skipped.append(f"{printable(listing.names[file + place])}: {reason}")
                    continue
                if len(rows) < row + place:  # close the gap that a skipped file has left
                    write(len(rows), pixels[row + place])
                rows.append(file + place)
    return rows, skipped


def decode_batches(
    listing: Listing, size: int, label: str, finish: Callable[[int, Result], T], *, first: int = 0
) -> Generator[list[T], None, None]:
    """All files from the `first` on, in order, `AT_ONCE` at a time.

    Args:
        listing: the files.
        size: pixels a side.
        label: for the progress bar.
        finish: what is done with a result, in the thread that decoded it; it is told the place in the batch.
        first: how many files are left out at the beginning.
    """
    names = listing.names[first:]
    with progress(label, len(names)) as advance, ThreadPoolExecutor(THREADS) as pool:
        for start in range(0, len(names), AT_ONCE):
            batch = [listing.root / name for name in names[start : start + AT_ONCE]]
            yield _decode_batch(pool, batch, size, finish)
            advance(len(batch))


def _decode_batch(
    pool: ThreadPoolExecutor, paths: list[Path], size: int, finish: Callable[[int, Result], T]
) -> list[T]:
    results: dict[int, T] = {}
    todo = enumerate(paths)

    def work() -> None:
        for place, path in todo:  # which all threads share, so that each takes the next file when it is done with one
            results[place] = finish(place, _decode(path, size))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns of large images and odd EXIF; what matters becomes a reason
        try:
            for worker in [pool.submit(work) for _ in range(THREADS)]:
                worker.result()
        finally:
            for _ in todo:  # after Ctrl-C no thread begins another file
                pass
    return [results[place] for place in range(len(paths))]


def _decode(path: Path, size: int) -> Result:
    try:
        return decode_file(path, size)
    except UnusableError as reason:
        return str(reason)


def check_skipped(listing: Listing, skipped: list[str], *, whole: bool = False, more: str = "") -> None:
    """Refuse a listing of which too many files cannot be used; `more` is what else to say about them."""
    if len(skipped) > (0 if whole else MOST_SKIPPED * len(listing.names)):
        first = "; ".join(skipped[:3])
        others = "; …" if len(skipped) > 3 else ""
        counts = f"{len(skipped):,} of {len(listing.names):,} files cannot be used"
        advice = "mend them, for every one counts" if whole else "mend or remove them"
        raise UserError(f"{listing.root}: {counts}; {advice}: {first}{others}{more}")
