"""Train and evaluate the runs of a sweep: resumable, and shared among all processes that are started on it."""

import fcntl
import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from hardpair.errors import UserError
from hardpair.sweep.options import Conditions
from hardpair.sweep.tables import Output
from hardpair.sweep.variants import Job
from hardpair.train import pretrain
from hardpair.train.pretrain import check_run
from hardpair.train.run_folder import stop_on_signals

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Results = Mapping[Path, R]
"""By the folder of the run."""


class Scores(Protocol[R_co]):
    """How runs are evaluated, and how their results are read."""

    def read(self, job: Job) -> R_co | None:
        """The result of a run; None unless it is finished and evaluated."""

    def missing(self, job: Job, step: int) -> bool:
        """Whether the encoder has still to be evaluated as it is after that step."""

    def evaluate(self, job: Job, step: int) -> None:
        """Evaluate the run's encoder, which is at that step, and write down the scores."""


class Sweep(Generic[R]):
    """Does every job that has no result yet.

    Several processes may work on the same jobs: each takes what no other has taken, and ends when all are done.
    ``write`` is given the results so far whenever there are new ones.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        scores: Scores[R],
        write: Callable[[Results[R]], None],
        *,
        data_root: Path,
        device: str,
        skip_broken: float = 0.0,
    ) -> None:
        self.jobs, self.scores, self.write = jobs, scores, write
        self.data_root, self.device, self.skip_broken = data_root, device, skip_broken
        self.results: dict[Path, R] = {}
        self.written = -1  # how many of them `write` has seen
        self.seconds = self.work = 0.0  # of the runs that this process has done from beginning to end

    def run_to_end(self) -> int | None:
        """Do what is missing, one run after the other; returns the signal that stopped it, or None at the end."""
        refuse_other_runs(self.jobs)
        with closing(self._to_do()) as to_do:
            for line, job, others in to_do:
                print(f"{line}{self._time_left(others)}", flush=True)
                new, began = not job.run.exists(), time.monotonic()
                signal = self._run(job)
                if signal is not None:
                    return signal
                if new:  # a run begun earlier would make the estimate too good
                    self.seconds += time.monotonic() - began
                    self.work += job.variant.forwards
        if self.written != len(self.results):
            self._write()
        return None

    def done(self, job: Job) -> bool:
        """Whether a run is finished and evaluated, by this process or another."""
        if job.run not in self.results:
            result = self.scores.read(job)
            if result is not None:
                self.results[job.run] = result
        return job.run in self.results

    def _run(self, job: Job) -> int | None:
        """Train up to each step that is still to be evaluated, evaluate, go on; returns the signal that came."""
        for step in job.steps:
            if step != job.steps[-1] and not self.scores.missing(job, step):
                continue
            outcome = pretrain(
                job.recipe,
                job.run,
                resume=True,
                data_root=self.data_root,
                skip_broken=self.skip_broken,
                device=self.device,
                until=step,
            )
            if outcome.status == "stopped":
                return outcome.signal
            with stop_on_signals() as request:
                if outcome.step in job.steps:  # the run may have been trained further before
                    self.scores.evaluate(job, outcome.step)
                if self.done(job):
                    self._write()
            if request.signal is not None or outcome.status == "finished":
                return request.signal
        return None

    def _write(self) -> None:
        for job in self.jobs:  # other processes may have finished some
            self.done(job)
        self.write(self.results)
        self.written = len(self.results)

    def _to_do(self) -> Generator[tuple[str, Job, int]]:
        """What to print for a job that is ours to do, the job, and the number of jobs that other processes do now.

        Ends when all jobs are done. A job is held while the caller does it.
        """
        left = {f"[{number}/{len(self.jobs)}] {job}": job for number, job in enumerate(self.jobs, start=1)}
        taken: dict[str, Job] = {}
        while left:
            before, taken = taken, {}
            for line, job in left.items():
                with _claim(job.run) as ours:
                    if not ours:
                        taken[line] = job
                        if line not in before:
                            print(f"{line}: another process is at it", flush=True)
                    elif self.done(job):
                        print(f"{line}: done {'elsewhere' if line in before else 'before'}", flush=True)
                    else:
                        yield line, job, len(taken)
            if taken.keys() == left.keys():  # nothing to do but to wait for the others
                time.sleep(1)
            left = taken

    def _time_left(self, others: int) -> str:
        """At the pace of this process so far; nothing before its first run."""
        if not self.work:
            return ""
        left = sum(job.variant.forwards for job in self.jobs if not self.done(job)) / (1 + others)
        minutes = max(1, round(left * self.seconds / self.work / 60))
        words = f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"
        return f"; about {words} left for all"


def run_sweep(
    options: Conditions, jobs: Sequence[Job], scores: Scores[R], output: Callable[[Results[R]], Output]
) -> int | None:
    """Do what is missing and keep table and figure up to date; returns the signal that stopped it, or None."""
    sweep = Sweep(
        jobs,
        scores,
        lambda results: output(results).write(),
        data_root=options.data_root,
        device=options.device,
        skip_broken=options.skip_broken,
    )
    signal = sweep.run_to_end()
    if signal is None:
        output(sweep.results).say()
    return signal


def refuse_other_runs(jobs: Sequence[Job]) -> None:
    """Another recipe in one of the folders shows here, before hours are spent on the others."""
    for out in {job.run.parent for job in jobs}:
        if out.exists() and not out.is_dir():
            raise UserError(f"{out}: is a file; choose another place with --out")
    for job in jobs:
        check_run(job.recipe, job.run, resume=True, option="--out")


@contextmanager
def _claim(run: Path) -> Iterator[bool]:
    """Whether the run is ours for the length of the block: a lock beside it that dies with its process."""
    file = run.parent / "locks" / run.name
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock = file.open("a")
    except FileNotFoundError:  # another process has just removed the folder
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
