"""What the runs came to: read from their files, the encoder's scores on the way among them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from hardpair.ablate.plan import Job, Variant
from hardpair.compare.over_seeds import OverSeeds
from hardpair.compare.results import JUDGED, find_score, read_own_run
from hardpair.report.run_files import Record, RunFiles

Curve = list[tuple[float, OverSeeds]]
"""Epochs, and a figure over seeds at each."""


@dataclass(frozen=True)
class Point:
    """How good the encoder was after some epochs: top-1 in per cent."""

    epoch: float
    linear: float
    linear_control: float
    knn: float
    knn_control: float


@dataclass(frozen=True)
class Result:
    """One finished and judged run."""

    seed: int
    run: str
    points: tuple[Point, ...]  # the last is the end
    losses: tuple[tuple[int, float], ...]  # epoch, mean over it
    loss: float  # this and the next two: as logged last
    mined: float  # share of pairs
    rank: float  # effective, of the features

    def at_end(self, name: str) -> float:
        """A score, or one of the figures that were logged."""
        return float(getattr(self if name in ("loss", "mined", "rank") else self.points[-1], name))

    def by_epoch(self, name: str) -> dict[float, float]:
        """A score, or the loss."""
        if name == "loss":
            return {float(epoch): loss for epoch, loss in self.losses}
        return {point.epoch: float(getattr(point, name)) for point in self.points}


@dataclass(frozen=True)
class Row:
    """One variant over seeds."""

    variant: Variant
    asked: tuple[int, ...]  # epochs at which it should have been judged
    results: tuple[Result, ...]

    def figure(self, name: str) -> OverSeeds:
        """At the end, of every seed."""
        return OverSeeds(tuple(result.at_end(name) for result in self.results))

    def curve(self, name: str) -> Curve:
        """A score against epochs, or the loss; only where every seed has one, so that no seed makes a jump."""
        seeds = [result.by_epoch(name) for result in self.results]
        common = sorted(set(seeds[0]).intersection(*seeds))
        return [(epoch, OverSeeds(tuple(seed[epoch] for seed in seeds))) for epoch in common]

    def to_json(self) -> dict[str, Any]:
        """The means and deviations, the curves, and every seed's values below them."""
        scores = ("linear", "linear_control", "knn", "knn_control")
        figures = {name: self.figure(name).to_json() for name in (*scores, "loss", "mined", "rank")}
        curves = {
            name: [{"epoch": epoch, **figure.to_json()} for epoch, figure in self.curve(name)]
            for name in ("loss", "linear", "knn")
        }
        return {**asdict(self.variant), **figures, "curves": curves, "seeds": [asdict(r) for r in self.results]}


def gather(jobs: Sequence[Job], results: Mapping[Path, Result]) -> list[Row]:
    """A row for each variant that has a result."""
    rows = []
    for name in dict.fromkeys(job.variant.name for job in jobs):
        done = [job for job in jobs if job.variant.name == name and job.run in results]
        if done:
            rows.append(Row(done[0].variant, done[0].epochs, tuple(results[job.run] for job in done)))
    return rows


def read_result(job: Job, *, on: str, facts: Record) -> Result | None:
    """The result of a run that is finished and judged; None where anything of that is missing or was done otherwise."""
    run = read_own_run(job.run, facts)
    if run is None or not run.events("end") or not run.steps:
        return None
    end = run.events("end")[-1]["step"]
    steps = sorted({score["step"] for score in run.all_scores if isinstance(score.get("step"), int)})
    points = {step: _point(run, job, step, on, facts) for step in steps}
    if points.get(end) is None:
        return None
    last = run.steps[-1]
    return Result(
        seed=job.seed,
        run=job.run.name,
        points=tuple(point for step, point in points.items() if point is not None and step <= end),
        losses=_losses(run),
        loss=last["loss"],
        mined=last["mined"],
        rank=last["rank"],
    )


def missing_protocols(job: Job, step: int, *, on: str, facts: Record) -> list[str]:
    """By which the encoder has not been judged at that step."""
    run = read_own_run(job.run, facts)
    return [name for name in JUDGED if run is None or _score(run, job, name, step, on, facts) is None]


def _point(run: RunFiles, job: Job, step: int, on: str, facts: Record) -> Point | None:
    knn, linear = (_score(run, job, protocol, step, on, facts) for protocol in JUDGED)
    if knn is None or linear is None:
        return None
    return Point(
        epoch=step / job.steps_an_epoch,
        linear=linear["metrics"]["top1"],
        linear_control=linear["control"]["top1"],
        knn=knn["metrics"]["top1"],
        knn_control=knn["control"]["top1"],
    )


def _score(run: RunFiles, job: Job, protocol: str, step: int, on: str, facts: Record) -> Record | None:
    return find_score(run, protocol, recipe_hash=job.recipe.to_json()["hash"], step=step, on=on, facts=facts)


def _losses(run: RunFiles) -> tuple[tuple[int, float], ...]:
    """Means of the lines logged in each epoch, for logs of any length to give a line that can be read."""
    epochs: dict[int, list[float]] = {}
    for line in run.steps:
        epochs.setdefault(math.ceil(line["epoch"]), []).append(line["loss"])
    return tuple((epoch, fmean(losses)) for epoch, losses in sorted(epochs.items()))
