"""JPEG files → squares: three bare decoders beside each other, and what our checks and threads cost beside them.

    python benchmarks/decode.py                          # the photos of ../shared/data/photos
    python benchmarks/decode.py --folder my/photos --sizes 64 --repeats 3

All take turns, in an order drawn anew for each round; a ratio is the median of those of the rounds, which slow minutes
of a shared machine do not change, and a rate that of the best pass. What counts is processor time per core:
it hardly grows with the other work of a machine, as the time on the clock does (which the JSON has, too). But two busy
cores share memory and more, so that each does less than one alone: a folder that two threads decode is compared with
the bare decoder in two processes.

A machine whose speed varies by a third hides a few per cent in passes of seconds. So the same is measured per file: the
bare decoder and `decode_file` by turns, file by file, and what is done around a file in a folder, with pictures that
are ready instead of decoded: finding it, checking its time of change, threads, the cache. Medians of processor time.

An error is the mean absolute difference, of 255, to what Pillow makes of the picture at its full size. A decoder is as
good as Pillow's reduced-size decoding where its error is at most .1 above that one's.
Goal: 95 % of the fastest that is as good, for `decode_file` and for a whole folder with its threads and its cache.
"""

import os
import random
import shutil
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import tyro
from bare_decoders import BARE, PILLOW, Decode, full_size
from numpy.typing import NDArray
from record import record

from hardpair.data import decode as decoding
from hardpair.data.cache import read_listing
from hardpair.data.decode import Square, read_square
from hardpair.data.layout import Listing
from hardpair.machine import keep_freed_memory

Work = Callable[[int], float]  # a pass over the files, to a size; gives the seconds of all processors together
ROUNDS = 10  # looks at each file, an even number
TIMES = 8  # that each file is decoded in a pass: what is done once for a folder is then shared by a thousand files
AS_GOOD = 0.1  # of 255 levels: what torch's resize and Pillow's may differ by


@dataclass(frozen=True)
class Options:
    """What is decoded, and how often.

    Args:
        folder: JPEG files, at any depth.
        sizes: side of the squares in pixels.
        repeats: passes over the folder with each decoder.
    """

    folder: Path = Path("../shared/data/photos")
    sizes: tuple[int, ...] = (32, 96, 224)
    repeats: int = 5


def decode_file(path: Path, size: int) -> NDArray[np.uint8]:
    """By us."""
    return read_square(path, size).pixels


DECODERS = {**BARE, "hardpair: decode_file": decode_file}
SIDE_BY_SIDE = f", {decoding.THREADS} processes"
INTO_CACHE = "hardpair: folder → cache, {} threads"


def error_of(decode: Decode, paths: list[Path], size: int) -> float:
    """Mean absolute difference to the full-size decoding."""
    return float(np.mean([np.abs(decode(path, size) - full_size(path, size).astype(int)).mean() for path in paths]))


def seconds_of(decode: Decode, paths: Iterable[Path], size: int) -> float:
    """Seconds of a processor for a pass over these files."""
    began = time.process_time()
    for path in paths:
        decode(path, size)
    return time.process_time() - began


def one_by_one(decode: Decode, paths: list[Path]) -> Work:
    """A pass over the files in one thread."""
    return lambda size: seconds_of(decode, TIMES * paths, size)


def seconds_by_name(name: str, paths: list[Path], size: int) -> float:
    """The same in a process of a pool, which cannot be sent a function without a name."""
    prepare()
    return seconds_of(BARE[name], TIMES * paths, size)


def prepare() -> None:
    """As the command does: memory is kept; and a decoder has one core."""
    keep_freed_memory()
    torch.set_num_threads(1)


def side_by_side(name: str, paths: list[Path], pool: ProcessPoolExecutor) -> Work:
    """A pass in as many processes as we have threads, which share nothing but the machine."""
    shares = [paths[start :: decoding.THREADS] for start in range(decoding.THREADS)]
    return lambda size: sum(pool.map(seconds_by_name, [name] * len(shares), shares, [size] * len(shares)))


def into_cache(root: Path, paths: list[Path], threads: int) -> Work:
    """A pass as a training begins with it: all files into a new entry of the cache."""
    listing = Listing(root, TIMES * [str(path.relative_to(root)) for path in paths], None, ())

    def run(size: int) -> float:
        before, decoding.THREADS = decoding.THREADS, threads
        began = time.process_time()
        read_listing(listing, "photos/all", size, most_skipped=0)
        decoding.THREADS = before
        return time.process_time() - began

    return run


@dataclass(frozen=True)
class Pass:
    """Of one way over all files, in seconds."""

    core: float  # of all processors together
    clock: float


def measure(works: dict[str, Work], size: int, repeats: int) -> dict[str, list[Pass]]:
    """The passes of each, taken in turns."""
    passes: dict[str, list[Pass]] = {name: [] for name in works}
    draw = random.Random(0)
    for _ in range(repeats):
        for name in draw.sample(list(works), len(works)):
            began = time.perf_counter()
            core = works[name](size)
            passes[name].append(Pass(core, time.perf_counter() - began))
            clear()
    return passes


def in_small(bare: Decode, root: Path, paths: list[Path], size: int) -> dict[str, float]:
    """Microseconds per file: bare, by us, and what a folder adds to that."""
    both = {"bare": bare, "decode_file": decode_file}
    times: dict[str, list[float]] = {name: [] for name in both}
    for path in paths:
        for decode in both.values():
            decode(path, size)  # the first to look at a file warms the caches for the other
        for turn in range(2 * ROUNDS):
            name = sorted(both)[(turn + turn // 2) % 2]  # a b b a, a b b a, ...
            times[name].append(seconds_of(both[name], [path], size))
    found = {name: 1e6 * statistics.mean(statistics.median(own) for own in batched(of)) for name, of in times.items()}
    ready = Square(np.zeros((3, size, size), np.uint8), enlarged=False, sides=(size, size))
    with patch.object(decoding, "read_square", lambda path, size: ready):  # noqa: ARG005
        for threads in sorted({1, decoding.THREADS}):
            work, spent = into_cache(root, paths, threads), []
            for _ in range(ROUNDS):
                spent.append(1e6 * work(size) / (TIMES * len(paths)))
                clear()
            found[f"around it, {threads} threads"] = statistics.median(spent)
    return found


def batched(times: list[float]) -> Iterator[list[float]]:
    """Those of one file after the other."""
    for start in range(0, len(times), ROUNDS):
        yield times[start : start + ROUNDS]


def clear() -> None:
    """Empty the cache."""
    for entry in Path(os.environ["HARDPAIR_CACHE"]).iterdir():
        shutil.rmtree(entry)


def compare(works: dict[str, Work], root: Path, paths: list[Path], size: int, repeats: int) -> dict[str, Any]:
    """Print the table of a size; returns its figures."""
    passes = measure(works, size, repeats)
    errors = {name: error_of(decode, paths, size) for name, decode in DECODERS.items()}
    as_good = [name for name in BARE if errors[name] <= errors[PILLOW] + AS_GOOD]

    def fastest(names: Iterable[str]) -> str:
        return min(names, key=lambda name: statistics.median(one.core for one in passes[name]))

    alone = fastest(as_good)
    beside = fastest(name + SIDE_BY_SIDE for name in as_good if name + SIDE_BY_SIDE in passes)
    print(f"squares of {size} px; the fastest bare decoder that is as good: {alone}")
    print(f"  {'':50}  images/s per core   ratio   error")
    lines = {}
    for name, own in passes.items():
        reference = beside if name in (beside, INTO_CACHE.format(decoding.THREADS)) else alone
        ratio = statistics.median(a.core / b.core for a, b in zip(passes[reference], own, strict=True))
        rate, error = TIMES * len(paths) / min(one.core for one in own), errors.get(name)
        print(f"  {name:50} {rate:19.0f} {ratio:7.3f}" + ("" if error is None else f" {error:7.3f}"), flush=True)
        on_clock = TIMES * len(paths) / min(one.clock for one in own)
        lines[name] = {"rate": rate, "ratio": ratio, "to": reference, "rate_on_clock": on_clock, "error": error}
    small = in_small(BARE[alone], root, paths, size)
    print("  microseconds per file: " + ", ".join(f"{name} {value:.0f}" for name, value in small.items()))
    whole = {name: small["decode_file"] + value for name, value in small.items() if name.startswith("around")}
    ratios = {name.removeprefix("around it, "): small["bare"] / value for name, value in whole.items()}
    print(
        "  so a folder has of the bare rate: " + ", ".join(f"{name} {r:.3f}" for name, r in ratios.items()), flush=True
    )
    return {"size": size, "fastest": alone, "lines": lines, "in_small": small, "ratios_in_small": ratios}


def main() -> None:
    """Print a table a size."""
    options = tyro.cli(Options, description=__doc__)
    prepare()
    warnings.filterwarnings("ignore", "The image decoding and encoding", DeprecationWarning)  # torchvision's is to go
    paths = sorted(path for path in options.folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    if not paths:
        print(f"{options.folder}: no JPEGs; give another --folder")
        return
    print(f"{len(paths)} JPEGs of {np.mean([path.stat().st_size for path in paths]) / 1000:.0f} kB on average")
    works = {name: one_by_one(decode, paths) for name, decode in DECODERS.items()}
    with (
        tempfile.TemporaryDirectory(prefix="hardpair-decode-") as cache,
        ProcessPoolExecutor(decoding.THREADS, get_context("spawn")) as pool,
    ):
        os.environ["HARDPAIR_CACHE"] = cache
        for name in BARE:
            if name.startswith("simplejpeg"):  # no other is ever the fastest
                works[name + SIDE_BY_SIDE] = side_by_side(name, paths, pool)
        for threads in sorted({1, decoding.THREADS}):
            works[INTO_CACHE.format(threads)] = into_cache(options.folder, paths, threads)
        found = [compare(works, options.folder, paths, size, options.repeats) for size in options.sizes]
    record("decode", {"files": len(paths), "found": found})


if __name__ == "__main__":
    main()
