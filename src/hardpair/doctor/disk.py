"""Whether the disk of the runs holds what a run writes, and how fast."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from hardpair.doctor.finding import Finding, bad, good, warning
from hardpair.doctor.options import Doctor
from hardpair.recipes import find_recipe
from hardpair.train.plan import Gpus, make_plan
from hardpair.words import scaled

TRIAL = 64_000_000  # bytes written and read
BLOCK = 1_000_000
SLOW = 20e6  # bytes a second; below that training waits long for its checkpoints
ELSEWHERE = "choose another place for runs with --run"


def check_disk(options: Doctor) -> Iterator[Finding]:
    """Room, then speed."""
    place = _nearest_folder(options.runs)
    yield _room(place)
    yield _speed(place)


def _nearest_folder(runs: Path) -> Path:
    """The folder of the runs or, where it is not made yet, the one it would be made in."""
    return next(path for path in (runs.absolute(), *runs.absolute().parents) if path.exists())


def _room(place: Path) -> Finding:
    free = shutil.disk_usage(place).free
    needed = make_plan(find_recipe("demo"), Gpus(1)).disk.checkpoints_while_saving
    found = f"{scaled(free, 'B')} free at {place}; the demo keeps two checkpoints, and a third while it is written: "
    found += scaled(needed, "B")
    return good("disk room", found) if free > needed else bad("disk room", found, f"free some space, or {ELSEWHERE}")


def _speed(place: Path) -> Finding:
    try:
        with tempfile.TemporaryFile(dir=place) as file:  # without a name, so that nothing can be left behind
            written, read = _write(file), _read(file)
    except OSError as error:
        return bad("disk speed", f"{place}: cannot be written ({error.strerror or error})", ELSEWHERE)
    found = f"writes {scaled(written, 'B/s')} to the disk itself, reads {scaled(read, 'B/s')}"
    if written < SLOW:
        return warning("disk speed", found, f"checkpoints will hold training up: {ELSEWHERE}, or save them less often")
    return good("disk speed", found)


def _write(file: IO[bytes]) -> float:
    """Bytes a second, until they are safe."""
    block = os.urandom(BLOCK)  # zeros might be written as a hole
    began = time.perf_counter()
    for _ in range(TRIAL // BLOCK):
        file.write(block)
    file.flush()
    os.fsync(file.fileno())
    return TRIAL / (time.perf_counter() - began)


def _read(file: IO[bytes]) -> float:
    """Bytes a second, from the disk where the system lets us drop its copy in memory."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    file.seek(0)
    began = time.perf_counter()
    while file.read(BLOCK):
        pass
    return TRIAL / (time.perf_counter() - began)
