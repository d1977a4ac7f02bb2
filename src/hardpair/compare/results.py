"""What the runs came to: read from their files, gathered in one row for each method and budget."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hardpair.compare.over_seeds import OverSeeds
from hardpair.compare.plan import Job
from hardpair.evaluate import knn, linear
from hardpair.evaluate.on_features import all_settings
from hardpair.files import read_json
from hardpair.report.files import Record, Run, mapping, read_run

JUDGED = ("knn", "linear")
"""The protocols of every comparison."""


@dataclass(frozen=True)
class Result:
    """One finished and judged run."""

    seed: int
    run: str
    minutes: float  # of training
    linear: float  # top-1 in per cent
    linear_control: float
    knn: float
    knn_control: float
    first_loss: float
    last_loss: float


@dataclass(frozen=True)
class Row:
    """One method at one budget, over seeds."""

    method: str
    budget: int
    epochs: int
    cost: float
    results: tuple[Result, ...]

    @property
    def forwards(self) -> float:
        """Forwards an image over the whole run."""
        return self.cost * self.epochs

    def figure(self, name: str) -> OverSeeds:
        """One figure of every seed."""
        return OverSeeds(tuple(float(getattr(result, name)) for result in self.results))

    def mean(self, name: str) -> float:
        """Over seeds."""
        return self.figure(name).mean

    def std(self, name: str) -> float | None:
        """Sample standard deviation over seeds; None for a single one."""
        return self.figure(name).std

    def to_json(self) -> dict[str, Any]:
        """The means and deviations, and every seed's values below them."""
        figures = {
            name: self.figure(name).to_json()
            for name in ("linear", "linear_control", "knn", "knn_control", "minutes", "first_loss", "last_loss")
        }
        fields = {"method": self.method, "budget": self.budget, "epochs": self.epochs, "cost": self.cost}
        seeds = [asdict(result) for result in self.results]
        return {**fields, "forwards": self.forwards, **figures, "seeds": seeds}


def gather(jobs: Sequence[Job], results: Mapping[Path, Result]) -> list[Row]:
    """A row for each method and budget that has a result, best linear score of a budget first."""
    groups: dict[tuple[str, int], list[Job]] = {}
    for job in jobs:
        if job.run in results:
            groups.setdefault((job.method, job.budget), []).append(job)
    rows = [
        Row(method, budget, some[0].recipe.epochs, some[0].cost, tuple(results[job.run] for job in some))
        for (method, budget), some in groups.items()
    ]
    return sorted(rows, key=lambda row: (row.budget, -row.mean("linear")))


def read_result(job: Job, *, on: str, facts: Record) -> Result | None:
    """The result of a run that is finished and judged; None where anything of that is missing or was done otherwise.

    ``facts`` are those of the training images: a run on others is for `pretrain` to refuse.
    """
    run = read_own_run(job.run, facts)
    if run is None or not run.steps:
        return None
    ends, recipe_hash = run.events("end"), job.recipe.to_json()["hash"]
    step = ends[-1]["step"] if ends else None
    knn, linear = (
        find_score(run, protocol, recipe_hash=recipe_hash, step=step, on=on, facts=facts) for protocol in JUDGED
    )
    if knn is None or linear is None:
        return None
    seconds = sum(line.get("seconds", 0.0) for line in run.events("stop", "end"))
    return Result(
        seed=job.seed,
        run=job.run.name,
        minutes=seconds / 60,
        linear=linear["metrics"]["top1"],
        linear_control=linear["control"]["top1"],
        knn=knn["metrics"]["top1"],
        knn_control=knn["control"]["top1"],
        first_loss=_after_one_epoch(run)["loss"],
        last_loss=run.steps[-1]["loss"],
    )


def _after_one_epoch(run: Run) -> Record:
    """The first record worth comparing with: memories begin with random directions, which are easy to tell from."""
    return next((step for step in run.steps if step.get("epoch", 0) >= 1), run.steps[-1])


def read_own_run(path: Path, facts: Record) -> Run | None:
    """The run, if there is one and it is on these images."""
    if not (path / "recipe.json").is_file() or _read(path / "data.json") != facts:
        return None
    return read_run(path)


def find_score(run: Run, protocol: str, *, recipe_hash: str, step: int | None, on: str, facts: Record) -> Record | None:
    """The newest score of the encoder at that step, by the protocol's own settings on the run's own images."""
    wanted = {
        "protocol": protocol,
        "settings": _default_settings(protocol),
        "on": on,
        "recipe_hash": recipe_hash,
        "step": step,
    }
    own = (score for score in reversed(run.all_scores) if _on_own_images(score, on, facts))
    return next((score for score in own if all(score.get(name) == value for name, value in wanted.items())), None)


def _on_own_images(score: Record, on: str, facts: Record) -> bool:
    """Validation leaves a part of the training images out, so their hash is another."""
    train = mapping(mapping(score.get("data")).get("train"))
    return train == facts if on == "test" else train.get("name") == facts["name"]


def _default_settings(protocol: str) -> Record:
    defaults = all_settings(knn if protocol == "knn" else linear, {})
    return dict(json.loads(json.dumps(defaults)))  # as they look once written: tuples become lists


def _read(path: Path) -> Any:
    try:
        return read_json(path)
    except (OSError, ValueError):
        return None
