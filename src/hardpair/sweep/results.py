"""What the runs of a sweep came to: every seed, and mean ± deviation over seeds."""

import dataclasses
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hardpair.errors import UserError, printable, shown
from hardpair.files import read_json
from hardpair.report.run_files import Record, mapping
from hardpair.sweep.variants import Job, Variant

SCORES = ("linear", "linear_control", "knn", "knn_control")
SEMI = ("semi", "semi_control")
IN_COMPARISON = (
    "seed", "run", "recipe_hash", "minutes", *SCORES, "first_loss", "last_loss", "source", *SEMI,
)  # fmt: skip
"""What compare.json says of each seed."""
MOST_BYTES = 10_000_000  # of a compare.json; a run takes about 600


@dataclass(frozen=True)
class OverSeeds:
    """The same figure of runs that differ in their seed alone."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Over seeds."""
        return statistics.fmean(self.values)

    @property
    def std(self) -> float | None:
        """Sample standard deviation over seeds; None for a single one."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def __format__(self, digits: str) -> str:
        spread = "" if self.std is None else f" ± {self.std:{digits}}"
        return f"{self.mean:{digits}}{spread}"

    def to_json(self) -> dict[str, float | None]:
        """Mean and deviation."""
        return {"mean": self.mean, "std": self.std}


@dataclass(frozen=True)
class Effect:
    """How many points a part adds: one figure per seed, each the mean over its pairs of cells."""

    label: str
    pairs: tuple[tuple[str, str], ...]
    seeds: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Over seeds."""
        return statistics.fmean(self.seeds)

    @property
    def margin(self) -> float | None:
        """Half of the 95 % confidence interval; None for a single seed."""
        if len(self.seeds) < 2:
            return None
        from scipy.stats import t as students_t  # takes a while to load

        error = statistics.stdev(self.seeds) / math.sqrt(len(self.seeds))
        return error * float(students_t.ppf(0.975, len(self.seeds) - 1))

    def __str__(self) -> str:
        return f"{self.mean:+.1f}" + ("" if self.margin is None else f" ± {self.margin:.1f}")


@dataclass(frozen=True)
class Evaluation:
    """Scores of the encoder after some epochs: top-1 in per cent, beside those of a random encoder."""

    epoch: float
    linear: float
    linear_control: float
    knn: float
    knn_control: float


@dataclass(frozen=True)
class Result:
    """One finished and evaluated run."""

    seed: int
    run: str
    recipe_hash: str
    minutes: float  # of training
    linear: float  # this and the next three: at the end
    linear_control: float
    knn: float
    knn_control: float
    first_loss: float
    last_loss: float
    source: str | None = None  # the earlier comparison it is known from; None: the run is here
    semi: Mapping[float, float] = field(default_factory=dict)  # share of the labels → top-1
    semi_control: Mapping[float, float] = field(default_factory=dict)  # of those that did not diverge
    points: tuple[Evaluation, ...] = ()  # the last is the end
    losses: tuple[tuple[int, float], ...] = ()  # epoch, mean over it
    mined: float | None = None  # share of pairs; this and the next as logged last
    rank: float | None = None  # effective, of the features

    @property
    def loss(self) -> float:
        """As logged last."""
        return self.last_loss

    def by_epoch(self, name: str) -> dict[float, float]:
        """A score, or the loss."""
        if name == "loss":
            return {float(epoch): loss for epoch, loss in self.losses}
        return {point.epoch: float(getattr(point, name)) for point in self.points}

    def to_json(self, names: Sequence[str]) -> dict[str, Any]:
        """These values."""
        values = {**asdict(self), "loss": self.loss}
        return {name: values[name] for name in names}


@dataclass(frozen=True)
class Summary:
    """One variant over seeds."""

    variant: Variant
    results: tuple[Result, ...]

    def figure(self, name: str) -> OverSeeds:
        """One figure of every seed, at the end."""
        return OverSeeds(tuple(float(getattr(result, name)) for result in self.results))

    def mean(self, name: str) -> float:
        """Over seeds."""
        return self.figure(name).mean

    def curve(self, name: str) -> list[tuple[float, OverSeeds]]:
        """A score against epochs, or the loss; only where every seed has one, so that no seed makes a jump."""
        seeds = [result.by_epoch(name) for result in self.results]
        common = sorted(set(seeds[0]).intersection(*seeds))
        return [(epoch, OverSeeds(tuple(seed[epoch] for seed in seeds))) for epoch in common]

    def semi(self, share: float) -> dict[str, OverSeeds]:
        """Fine-tuned with that share of the labels, and the control.

        Nothing for a method that has seen all labels; no control where a random encoder diverged.
        """
        every = {name: [getattr(result, name).get(share) for result in self.results] for name in SEMI}
        return {name: OverSeeds(tuple(scores)) for name, scores in every.items() if None not in scores}

    def to_json(self, *names: str) -> dict[str, Any]:
        """Means and deviations of these figures."""
        return {name: self.figure(name).to_json() for name in names}


def summarise(jobs: Sequence[Job], results: Mapping[Path, Result]) -> list[Summary]:
    """A summary of each variant that has a result."""
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        if job.run in results:
            groups.setdefault(job.variant.name, []).append(job)
    return [Summary(some[0].variant, tuple(results[job.run] for job in some)) for some in groups.values()]


Known = Mapping[str, Result]
"""By the hash of a run's recipe."""


def read_known(files: Iterable[Path], *, on: str, facts: Record) -> Known:
    """All results of these compare.json, whoever wrote them; they must be of the very images that are asked for."""
    known: dict[str, Result] = {}
    for file in files:
        try:
            content = mapping(read_json(file, most=MOST_BYTES))
        except OSError as error:
            why = error.strerror or error
            raise UserError(f"known: {file}: {why}; give the compare.json of a comparison") from error
        except ValueError as error:
            raise UserError(f"known: {file} is no compare.json ({error})") from error
        if (content.get("on"), content.get("data")) != (on, facts):
            theirs = f"{shown(mapping(content.get('data')).get('name'))}, {shown(content.get('on'))} images"
            raise UserError(f"known: {file} is of {theirs}; asked for is {facts['name']!r} as it is now, {on!r} images")
        source = printable(f"{file} ({content.get('date')}, commit {content.get('commit')})")
        try:
            results = [_known_result(seed, source) for row in content["rows"] for seed in row["seeds"]]
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise UserError(f"known: {file} is no compare.json that can be read ({error!r})") from error
        known |= {result.recipe_hash: result for result in results}
    return known


def _known_result(values: Record, source: str) -> Result:
    """Only plain values of the right type are taken."""
    values = {**values, "source": values["source"] or source}
    kinds: dict[str, Any] = {f.name: f.type for f in dataclasses.fields(Result) if f.name in IN_COMPARISON}
    fields: dict[str, Any] = {
        name: float(values[name]) if kind is float else values[name] for name, kind in kinds.items()
    }
    for name in SEMI:
        fields[name] = {float(share): float(score) for share, score in values[name].items()}
    for name in kinds.keys() - set(SEMI):
        if not isinstance(fields[name], kinds[name]):
            raise TypeError(f"{name}: {shown(fields[name])}")
    return Result(**fields)
