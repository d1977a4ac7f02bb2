"""Judge the encoder of a run, with a random encoder of the same shape beside it."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import torch

from hardpair.errors import UserError
from hardpair.evaluate.distill import Distilling, distill_trials
from hardpair.evaluate.knn import knn
from hardpair.evaluate.linear import linear
from hardpair.evaluate.neighbours import write_neighbours
from hardpair.evaluate.on_features import features_trial
from hardpair.evaluate.probe import Probing, probe
from hardpair.evaluate.semi import FewLabels, semi_trials
from hardpair.evaluate.transfer import Transfer, transfer_table, transfer_trials
from hardpair.evaluate.trial import Bench, Judgement, Trial
from hardpair.files import append_json, commit
from hardpair.models import Encoder, load_encoder


@dataclass(frozen=True)
class Settings:
    """What the protocols are told; as published, where nothing is said."""

    knn: Mapping[str, Any] = field(default_factory=dict)
    probing: Probing | None = None  # linear in ImageNet's form, where it is given
    few_labels: FewLabels = field(default_factory=FewLabels)
    distilling: Distilling = field(default_factory=Distilling)
    transfer: Transfer = field(default_factory=Transfer)


def evaluate_run(
    run: Path,
    protocols: Sequence[str],
    *,
    settings: Settings | None = None,
    on: Literal["test", "validation"] = "test",
    data: str | None = None,
    size: int | None = None,
    data_root: Path,
    device: torch.device,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Score the run's encoder by each protocol, append the scores to ``scores.jsonl`` and return them."""
    encoder, recipe = load_encoder(run), _read_recipe(run)
    bench = Bench(
        run,
        encoder,
        source=data or recipe["data"],
        size=size or recipe["image_size"],
        seed=recipe["seed"],
        on=on,
        root=data_root,
        device=device,
        say=say,
    )
    scores, missing = [], dict[str, str]()
    for trial in _trials(bench, protocols, settings or Settings(), missing):
        scores.append(_score(trial, bench, recipe))
        append_json(run / "scores.jsonl", scores[-1])
        say(_in_words(scores[-1]))
    if "transfer" in protocols:
        if not any(score["protocol"] == "transfer" for score in scores):
            raise UserError(f"none of the transfer sets is below {data_root}; give their folder with --data-root")
        say(transfer_table(scores, missing))
    if {"knn", "linear"} & set(protocols):
        _write_neighbours(bench)
    return scores


def _trials(bench: Bench, protocols: Sequence[str], settings: Settings, missing: dict[str, str]) -> Iterator[Trial]:
    """What is asked for, one after the other; images are opened when their turn comes."""
    for name in protocols:
        if name == "knn":
            yield features_trial(bench, "knn", knn, settings.knn)
        elif name == "linear" and settings.probing is None:
            yield features_trial(bench, "linear", linear, {})
        elif name == "linear":
            assert settings.probing is not None
            yield _probe_trial(bench, settings.probing)
        elif name == "semi":
            yield from semi_trials(bench, settings.few_labels)
        elif name == "distill":
            yield from distill_trials(bench, settings.few_labels, settings.distilling)
        else:
            yield from transfer_trials(bench, settings.transfer, missing)


def _probe_trial(bench: Bench, probing: Probing) -> Trial:
    train, test = bench.images("train"), bench.centre(lambda size: bench.images("test", size))

    def judge(encoder: Encoder) -> Judgement:
        return Judgement(*probe(encoder, train, test, probing, seed=bench.seed, device=bench.device))

    return Trial("linear", {"form": "augmented", **asdict(probing)}, {"train": train, "test": test}, judge)


def _score(trial: Trial, bench: Bench, recipe: Mapping[str, Any]) -> dict[str, Any]:
    began = time.monotonic()
    judged = trial.judge(bench.encoder)
    seconds = time.monotonic() - began
    control = trial.judge(bench.control(trial.data["train"]))
    return {
        "protocol": trial.protocol,
        "settings": dict(trial.settings),
        "metrics": judged.metrics,
        "control": control.metrics,
        "chosen": {"encoder": judged.chosen, "control": control.chosen},
        **trial.facts,
        "data": {part: images.facts() for part, images in trial.data.items()},
        "on": bench.on,
        "image_size": bench.size,
        "step": bench.encoder.step,
        "seed": bench.seed,
        "recipe": recipe["name"],
        "recipe_hash": recipe["hash"],
        "commit": commit(),
        "seconds": round(seconds, 2),  # of the trained encoder; the control takes as long
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _write_neighbours(bench: Bench) -> None:
    train, test = bench.images("train"), bench.images("test")
    features, control = (bench.features(e, test) for e in (bench.encoder, bench.control(train)))
    write_neighbours(bench.run / "neighbours.json", features, control, test)


def _read_recipe(run: Path) -> dict[str, Any]:
    """The recipe as plain values; evaluation asks for five of them and knows no method."""
    try:
        recipe = json.loads((run / "recipe.json").read_text())
        kinds = {"name": str, "hash": str, "data": str, "seed": int, "image_size": int}
        return {name: kind(recipe[name]) for name, kind in kinds.items()}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{run / 'recipe.json'}: cannot be read ({error!r}); is {run} a run?") from error


def _in_words(score: Mapping[str, Any]) -> str:
    name, value = next(iter(score["metrics"].items()))
    control, settings = score["control"][name], score["settings"]
    which = settings.get("set") or (f"{settings['labels']:.3g} of the labels" if "labels" in settings else "")
    title = f"{score['protocol']}{f', {which}' if which else ''}"
    words = {"top1": "top-1", "mean_per_class": "mean per class", "map11": "11-point mAP"}[name]
    return f"{title}: {words} {value:.1f} %, a random encoder {control:.1f} % ({value - control:+.1f} points)"
