"""The scores in the folders of runs: evaluate what is missing, read what is there."""

import dataclasses
import json
import math
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from hardpair.evaluate import Settings, evaluate_run
from hardpair.evaluate.linear import REGRESSION
from hardpair.files import read_json
from hardpair.protocol_settings import Knn, Tuned
from hardpair.recipes import SUPERVISED
from hardpair.recipes.tuning import PRESETS
from hardpair.report.run_files import Record, RunFiles, mapping, read_run
from hardpair.sweep.results import SCORES, Evaluation, Known, Result
from hardpair.sweep.variants import Job

PROTOCOLS = ("knn", "linear")
PRESET = Tuned().preset


@dataclass(frozen=True)
class RunScores:
    """The scores in the folders of the runs: of these training images, by the protocols' own settings.

    Runs that are not here may be known from earlier comparisons.
    """

    facts: Record  # of the training images: a run on others is for `pretrain` to refuse
    on: Literal["test", "validation"]
    data_root: Path
    device: torch.device
    labels: tuple[float, ...] = ()  # shares of the labels that encoders are fine-tuned with, too
    known: Known = field(default_factory=dict)
    skip_broken: float = 0.0
    shown: Record = field(default_factory=dict)  # their facts as shown to encoders, where that differs

    def read(self, job: Job) -> Result | None:
        """The result of a run that is finished and evaluated; None where anything is missing or was done otherwise."""
        return self._read(job) or self._read_known(job)

    def missing(self, job: Job, step: int) -> bool:
        """Whether the encoder has not been evaluated at that step by every protocol."""
        return bool(self._missing_protocols(job, step))

    def evaluate(self, job: Job, step: int) -> None:
        """By whatever it has not been evaluated by; fine-tuned at the end only."""
        protocols, shares = self._missing_protocols(job, step), tuple[float, ...]()
        if step == job.steps[-1]:
            run = self._open(job)
            shares = tuple(
                s for s in self._shares(job) if run is None or self._score(run, job, "semi", step, s) is None
            )
        if protocols or shares:
            evaluate_run(
                job.run,
                [*protocols, "semi"] if shares else protocols,
                settings=Settings(tuned=Tuned(labels=shares)),
                on=self.on,
                data_root=self.data_root,
                skip_broken=self.skip_broken,
                device=self.device,
                say=print,
            )

    def _read(self, job: Job) -> Result | None:
        run = self._open(job)
        if run is None or not run.steps or not run.events("end"):
            return None
        end = run.events("end")[-1]["step"]
        steps = sorted({score["step"] for score in run.all_scores if isinstance(score.get("step"), int)})
        points = [point for step in steps if step <= end and (point := self._point(run, job, step)) is not None]
        semi = {share: self._score(run, job, "semi", end, share) for share in self._shares(job)}
        if not points or points[-1].epoch != end / job.steps_per_epoch or None in semi.values():
            return None
        few = {share: score for share, score in semi.items() if score is not None}
        last = run.steps[-1]
        at_end = {name: getattr(points[-1], name) for name in SCORES}
        return Result(
            seed=job.seed,
            run=job.run.name,
            recipe_hash=job.recipe_hash,
            minutes=sum(line.get("seconds", 0.0) for line in run.events("stop", "end")) / 60,
            **at_end,
            first_loss=_after_one_epoch(run)["loss"],
            last_loss=last["loss"],
            semi={share: score["metrics"]["top1"] for share, score in few.items()},
            semi_control={share: score["control"]["top1"] for share, score in few.items() if score["control"]},
            points=tuple(points),
            losses=_losses(run),
            mined=last.get("mined"),
            rank=last.get("rank"),
        )

    def _read_known(self, job: Job) -> Result | None:
        """The result of that very recipe, if it was evaluated with every share of the labels that is asked for."""
        result, shares = self.known.get(job.recipe_hash), self._shares(job)
        if result is None or not result.semi.keys() >= set(shares):
            return None
        semi, control = ({s: scores[s] for s in shares if s in scores} for scores in (result.semi, result.semi_control))
        return dataclasses.replace(result, semi=semi, semi_control=control)

    def _open(self, job: Job) -> RunFiles | None:
        """The run, if there is one and it is on these images."""
        try:
            same = (job.run / "recipe.json").is_file() and read_json(job.run / "data.json") == self.facts
        except (OSError, ValueError):
            return None
        return read_run(job.run) if same else None

    def _shares(self, job: Job) -> tuple[float, ...]:
        """A method that has seen all labels cannot show what few are worth."""
        return () if job.recipe.method == SUPERVISED else self.labels

    def _missing_protocols(self, job: Job, step: int) -> list[str]:
        run = self._open(job)
        return [name for name in PROTOCOLS if run is None or self._score(run, job, name, step) is None]

    def _point(self, run: RunFiles, job: Job, step: int) -> Evaluation | None:
        scores = {name: self._score(run, job, name, step) for name in PROTOCOLS}
        top1: dict[str, float] = {}
        for name, score in scores.items():
            if score is None:
                return None
            top1 |= {name: score["metrics"]["top1"], f"{name}_control": score["control"]["top1"]}
        return Evaluation(step / job.steps_per_epoch, **top1)

    def _score(self, run: RunFiles, job: Job, protocol: str, step: int, share: float = 1.0) -> Record | None:
        """The newest score of the encoder at that step, by the protocol's own settings on the run's own images."""
        wanted = {"protocol": protocol, "on": self.on, "recipe_hash": job.recipe_hash, "step": step}
        for score in reversed(run.all_scores):
            same = all(score.get(name) == value for name, value in wanted.items())
            if same and self._on_own_images(score) and _as_usual(score, share):
                return score
        return None

    def _on_own_images(self, score: Record) -> bool:
        """Validation leaves a part of the training images out, as do few labels, so their hash is another."""
        train = mapping(mapping(score.get("data")).get("train"))
        whole = self.on == "test" and score.get("protocol") != "semi"
        return train == (self.shown or self.facts) if whole else train.get("name") == self.facts["name"]


def _as_usual(score: Record, share: float) -> bool:
    """Whether the settings are the defaults of the protocol."""
    settings = mapping(score.get("settings"))
    if score["protocol"] != "semi":
        return settings == _as_written(asdict(Knn()) if score["protocol"] == "knn" else REGRESSION)
    batch = PRESETS[PRESET].candidates(score["labelled_images"], share=share)[0].batch_size
    usual = {**asdict(PRESETS[PRESET]), "preset": PRESET, "labels": share, "subset_seed": 0, "batch_size": batch}
    return _as_written(usual).items() <= settings.items()


def _as_written(settings: Mapping[str, Any]) -> Record:
    return dict(json.loads(json.dumps(settings)))  # tuples become lists


def _after_one_epoch(run: RunFiles) -> Record:
    """The first record worth comparing with: memories begin with random directions, which are easy to tell from."""
    return next((step for step in run.steps if step.get("epoch", 0) >= 1), run.steps[-1])


def _losses(run: RunFiles) -> tuple[tuple[int, float], ...]:
    """Means of the lines logged in each epoch, for logs of any length to give a line that can be read."""
    epochs: dict[int, list[float]] = {}
    for line in run.steps:
        epochs.setdefault(math.ceil(line["epoch"]), []).append(line["loss"])
    return tuple((epoch, statistics.fmean(losses)) for epoch, losses in sorted(epochs.items()))
