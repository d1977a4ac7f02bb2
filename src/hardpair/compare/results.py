"""What the runs came to: read from their files, gathered in one row for each method and budget."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hardpair.compare.over_seeds import OverSeeds
from hardpair.compare.plan import Job
from hardpair.evaluate import knn, linear
from hardpair.evaluate.on_features import all_settings
from hardpair.evaluate.semi import FIRST
from hardpair.files import read_json
from hardpair.recipes import SUPERVISED
from hardpair.recipes.tuning import PRESETS
from hardpair.report.run_files import Record, RunFiles, mapping, read_run

JUDGED = ("knn", "linear")
"""The protocols of every comparison."""
SEMI = ("semi", "semi_control")


@dataclass(frozen=True)
class Result:
    """One finished and judged run."""

    seed: int
    run: str
    recipe_hash: str
    minutes: float  # of training
    linear: float  # top-1 in per cent
    linear_control: float
    knn: float
    knn_control: float
    first_loss: float
    last_loss: float
    source: str | None = None  # the earlier comparison it is known from; None: the run is here
    semi: Mapping[float, float] = field(default_factory=dict)  # share of the labels → top-1
    semi_control: Mapping[float, float] = field(default_factory=dict)  # of those that did not diverge


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
        """Forwards per image over the whole run."""
        return self.cost * self.epochs

    def figure(self, name: str) -> OverSeeds:
        """One figure of every seed."""
        return OverSeeds(tuple(float(getattr(result, name)) for result in self.results))

    def semi(self, share: float) -> dict[str, OverSeeds]:
        """Fine-tuned with that share of the labels, and the control.

        Nothing for a method that has seen all labels; no control where a random encoder diverged.
        """
        every = {name: [getattr(result, name).get(share) for result in self.results] for name in SEMI}
        return {name: OverSeeds(tuple(scores)) for name, scores in every.items() if None not in scores}

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
        few = {f"{share:g}": self.semi(share) for share in self.results[0].semi}
        semi = {
            name: {share: both[name].to_json() for share, both in few.items() if name in both}
            for name in SEMI * bool(few)
        }
        seeds = [asdict(result) for result in self.results]
        return {**fields, "forwards": self.forwards, **figures, **semi, "seeds": seeds}


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


def read_result(job: Job, *, labels: Sequence[float], on: str, facts: Record) -> Result | None:
    """The result of a run that is finished and judged; None where anything of that is missing or was done otherwise.

    ``facts`` are those of the training images: a run on others is for `pretrain` to refuse.
    """
    run = read_own_run(job.run, facts)
    if run is None or not run.steps:
        return None
    scores = {name: score for name, score in _scores(run, job, labels, on, facts).items() if score is not None}
    if scores.keys() != _columns(job, labels):
        return None
    knn, linear = scores["knn"], scores["linear"]
    semi = {share: score for share, score in scores.items() if isinstance(share, float)}
    seconds = sum(line.get("seconds", 0.0) for line in run.events("stop", "end"))
    return Result(
        seed=job.seed,
        run=job.run.name,
        recipe_hash=job.recipe_hash,
        minutes=seconds / 60,
        linear=linear["metrics"]["top1"],
        linear_control=linear["control"]["top1"],
        knn=knn["metrics"]["top1"],
        knn_control=knn["control"]["top1"],
        first_loss=_after_one_epoch(run)["loss"],
        last_loss=run.steps[-1]["loss"],
        semi={share: score["metrics"]["top1"] for share, score in semi.items()},
        semi_control={share: score["control"]["top1"] for share, score in semi.items() if score["control"]},
    )


def missing_scores(job: Job, *, labels: Sequence[float], on: str, facts: Record) -> tuple[list[str], tuple[float, ...]]:
    """By which protocols a finished run has not been judged, and with which shares of the labels."""
    run = read_own_run(job.run, facts)
    assert run is not None
    missing = {name for name, score in _scores(run, job, labels, on, facts).items() if score is None}
    return [name for name in JUDGED if name in missing], tuple(share for share in labels if share in missing)


def _scores(
    run: RunFiles, job: Job, labels: Sequence[float], on: str, facts: Record
) -> dict[str | float, Record | None]:
    ends = run.events("end")
    which: dict[str, Any] = {
        "recipe_hash": job.recipe_hash,
        "step": ends[-1]["step"] if ends else None,
        "on": on,
        "facts": facts,
    }
    return {
        name: find_score(run, name, **which) if isinstance(name, str) else find_score(run, "semi", share=name, **which)
        for name in _columns(job, labels)
    }


def _columns(job: Job, labels: Sequence[float]) -> set[str | float]:
    """Protocols, and shares of the labels."""
    return {*JUDGED, *own_shares(job, labels)}


def own_shares(job: Job, labels: Sequence[float]) -> tuple[float, ...]:
    """With which shares of the labels a run is judged: whoever has seen all cannot show what few are worth."""
    return () if job.method == SUPERVISED else tuple(labels)


def _after_one_epoch(run: RunFiles) -> Record:
    """The first record worth comparing with: memories begin with random directions, which are easy to tell from."""
    return next((step for step in run.steps if step.get("epoch", 0) >= 1), run.steps[-1])


def read_own_run(path: Path, facts: Record) -> RunFiles | None:
    """The run, if there is one and it is on these images."""
    if not (path / "recipe.json").is_file() or _read(path / "data.json") != facts:
        return None
    return read_run(path)


def find_score(
    run: RunFiles, protocol: str, *, recipe_hash: str, step: int | None, on: str, facts: Record, share: float = 1.0
) -> Record | None:
    """The newest score of the encoder at that step, by the protocol's own settings on the run's own images."""
    wanted = {"protocol": protocol, "on": on, "recipe_hash": recipe_hash, "step": step}
    for score in reversed(run.all_scores):
        own = _on_own_images(score, on, facts) and all(score.get(name) == value for name, value in wanted.items())
        if own and _as_usual(score, share):
            return score
    return None


def _on_own_images(score: Record, on: str, facts: Record) -> bool:
    """Validation leaves a part of the training images out, as do few labels, so their hash is another."""
    train = mapping(mapping(score.get("data")).get("train"))
    whole = on == "test" and score.get("protocol") != "semi"
    return train == facts if whole else train.get("name") == facts["name"]


def _as_usual(score: Record, share: float) -> bool:
    """Whether the settings are those that nobody has to give."""
    settings = mapping(score.get("settings"))
    if score["protocol"] != "semi":
        return settings == _as_written(all_settings(knn if score["protocol"] == "knn" else linear, {}))
    batch = PRESETS[FIRST].candidates(score["labelled_images"], share=share)[0].batch_size
    usual = {**asdict(PRESETS[FIRST]), "preset": FIRST, "labels": share, "subset_seed": 0, "batch_size": batch}
    return _as_written(usual).items() <= settings.items()


def _as_written(settings: Mapping[str, Any]) -> Record:
    return dict(json.loads(json.dumps(settings)))  # tuples become lists


def _read(path: Path) -> Any:
    try:
        return read_json(path)
    except (OSError, ValueError):
        return None
