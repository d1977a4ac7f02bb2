"""Doing what is missing of many runs, one after the other, and saying how long the rest may take."""

import time
from collections.abc import Callable, Container, Iterable, Sequence
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
    jobs: Sequence[J], done: Container[Path], do: Callable[[J], int | None], work: Callable[[J], float]
) -> int | None:
    """Do every job that is missing, until the end or a signal, which is returned; a line before each says which."""
    seconds = spent = 0.0  # what the runs of this process took, for the time left
    for number, job in enumerate(jobs, start=1):
        place = f"[{number}/{len(jobs)}] {job}"
        if job.run in done:
            print(f"{place}: done before", flush=True)
            continue
        left = sum(work(other) for other in jobs if other.run not in done)
        print(f"{place}{_time_left(left * seconds / spent) if spent else ''}", flush=True)
        new, began = not job.run.exists(), time.monotonic()
        signal = do(job)
        if signal is not None:
            return signal
        if new:  # what was begun earlier would make the estimate too good
            seconds += time.monotonic() - began
            spent += work(job)
    return None


def _time_left(seconds: float) -> str:
    """In minutes, or hours where there are many."""
    minutes = max(1, round(seconds / 60))
    words = f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"
    return f"; about {words} left for all"
