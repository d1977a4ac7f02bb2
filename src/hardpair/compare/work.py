"""Doing what is missing of many runs, one after the other, and saying how long the rest may take."""

import fcntl
import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Protocol, TypeVar

from hardpair.errors import UserError
from hardpair.recipes import Recipe
from hardpair.train.pretrain import check_run


class Planned(Protocol):
    """A run that is to be: what, and in which folder."""

    @property
    def recipe(self) -> Recipe:
        """What is trained."""

    @property
    def run(self) -> Path:
        """Where."""


J = TypeVar("J", bound=Planned)


def refuse_other_runs(out: Path, jobs: Iterable[Planned]) -> None:
    """Another recipe in one of the folders shows here, before hours are spent on the others."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out}: is a file; choose another place with --out")
    for job in jobs:
        check_run(job.recipe, job.run, resume=True, option="--out")


def work_through(
    jobs: Sequence[J], known: Callable[[J], bool], do: Callable[[J], int | None], work: Callable[[J], float]
) -> int | None:
    """Do every job of which nothing is known, until the end or a signal, which is returned; a line before each says it.

    Several processes may be at the same jobs: each takes what no other has taken, and ends when all are done.
    """
    pace = _Pace()
    with closing(_to_do(jobs, known)) as to_do:
        for line, job, others in to_do:
            rest = sum(work(other) for other in jobs if not known(other))
            print(f"{line}{pace.time_left(rest / (1 + others))}", flush=True)
            new, began = not job.run.exists(), time.monotonic()
            signal = do(job)
            if signal is not None:
                return signal
            if new:  # what was begun earlier would make the estimate too good
                pace.add(time.monotonic() - began, work(job))
    return None


def _to_do(jobs: Sequence[J], known: Callable[[J], bool]) -> Generator[tuple[str, J, int]]:
    """What to say of a job that is ours to do, the job, and how many runs other processes are at, until all are known.

    A job is held while the one who asked for it does it.
    """
    left = {f"[{number}/{len(jobs)}] {job}": job for number, job in enumerate(jobs, start=1)}
    taken: dict[str, J] = {}
    while left:
        before, taken = taken, {}
        for line, job in left.items():
            with _claim(job.run) as ours:
                if not ours:
                    taken[line] = job
                    if line not in before:
                        print(f"{line}: another process is at it", flush=True)
                elif known(job):
                    print(f"{line}: done {'elsewhere' if line in before else 'before'}", flush=True)
                else:
                    yield line, job, len(taken)
        if taken.keys() == left.keys():  # nothing to do but to wait for the others
            time.sleep(1)
        left = taken


@contextmanager
def _claim(run: Path) -> Iterator[bool]:
    """Whether the run is ours for the length of the block: a lock beside it that dies with its process."""
    file = run.parent / "locks" / run.name
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock = file.open("a")
    except FileNotFoundError:  # another process has just cleared the folder away
        yield False
        return
    except OSError as error:
        raise UserError(f"{file}: cannot be written ({error.strerror or error}); choose another --out") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            ours = file.stat().st_ino == os.fstat(lock.fileno()).st_ino
        except (BlockingIOError, FileNotFoundError):
            ours = False
        try:
            yield ours
        finally:
            if ours:
                with suppress(OSError):  # the folders stay where there is anything in them
                    file.unlink()
                    file.parent.rmdir()
                    run.parent.rmdir()


class _Pace:
    """How fast this process has been, once it has done something."""

    def __init__(self) -> None:
        self.seconds = self.work = 0.0

    def add(self, seconds: float, work: float) -> None:
        """Count a run."""
        self.seconds, self.work = self.seconds + seconds, self.work + work

    def time_left(self, work: float) -> str:
        """In words; nothing where nothing is known."""
        return _time_left(work * self.seconds / self.work) if self.work else ""


def _time_left(seconds: float) -> str:
    """In minutes, or hours where there are many."""
    minutes = max(1, round(seconds / 60))
    words = f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"
    return f"; about {words} left for all"
