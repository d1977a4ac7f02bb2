"""Score the encoder of a run, and a randomly initialised encoder of the same shape."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import torch

from hardpair import distributed
from hardpair.data.progress import progress_of
from hardpair.errors import UserError, nearest
from hardpair.evaluate.distill import Distilling, distill_trials
from hardpair.evaluate.knn import knn
from hardpair.evaluate.linear import linear
from hardpair.evaluate.on_features import features_trial
from hardpair.evaluate.probe import Probing, probe
from hardpair.evaluate.semi import FewLabels, semi_trials
from hardpair.evaluate.transfer import Transfer, transfer_table, transfer_trials
from hardpair.evaluate.trial import Bench, Judgement, Trial, is_judgement
from hardpair.files import append_json, commit, read_json
from hardpair.models import Encoder, fingerprint, load_encoder
from hardpair.recipes import SUPERVISED, check_field
from hardpair.train.neighbours import write_neighbours
from hardpair.train.tuner import DivergedError

CONTROL = "random encoder"  # before what is said of its progress
CONTROLS: dict[str, Judgement] = {}
"""What random encoders came to in this process, by all that made them do so."""


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
    _refuse_to_train_together(protocols, settings or Settings())
    encoder, recipe = load_encoder(run), _read_recipe(run)
    bench = Bench(
        run,
        encoder,
        source=data or recipe["data"],
        size=recipe["image_size"] if size is None else size,
        seed=recipe["seed"],
        on=on,
        root=data_root,
        device=device,
        say=say,
    )
    _mention_labels_seen(bench, recipe, protocols)
    scores, failures, missing = [], [], dict[str, str]()
    for trial in _trials(bench, protocols, settings or Settings(), missing):
        try:
            scores.append(_score(trial, bench, recipe))
        except DivergedError as error:  # the others may still succeed
            failures.append(str(error))
            say(f"{trial.protocol}: {error}")
            continue
        if distributed.is_main():
            append_json(run / "scores.jsonl", scores[-1])
        say(_in_words(scores[-1]))
    if on == "test" and {"knn", "linear"} & set(protocols):  # the page shows test images
        _write_neighbours(bench)
    if "transfer" in protocols:
        say(transfer_table(scores, missing))
    bench.kept.forget()
    if failures:
        raise UserError(failures[0])
    if not scores:
        raise UserError(f"none of the transfer sets asked for is below {data_root}; give their folder with --data-root")
    return scores


def _refuse_to_train_together(protocols: Sequence[str], settings: Settings) -> None:
    """Several processes share the work on features; networks are trained by one."""
    trained = {
        "semi": True,
        "distill": True,
        "linear": settings.probing,
        "transfer": settings.transfer.form == "finetune",
    }
    for name in protocols if distributed.world_size() > 1 else ():
        if trained.get(name):
            raise UserError(f"{name}: trains a network, which one process does; start it without torchrun")


def _mention_labels_seen(bench: Bench, recipe: Mapping[str, Any], protocols: Sequence[str]) -> None:
    """An encoder that was trained with all labels cannot show what it does with few."""
    if recipe["method"] != SUPERVISED:
        return
    if few := sorted({"semi", "distill"} & set(protocols)):
        raise UserError(f"{few[0]}: {bench.run} was trained with all the labels, so few of them mean nothing")
    bench.say("this encoder was trained with labels; scores say so (labels_seen)")


def _trials(bench: Bench, protocols: Sequence[str], settings: Settings, missing: dict[str, str]) -> Iterator[Trial]:
    """What is asked for, one after the other; images are opened when their turn comes."""
    makers: dict[str, Callable[[], Iterable[Trial]]] = {
        "knn": lambda: [features_trial(bench, "knn", knn, settings.knn)],
        "linear": lambda: [_linear_trial(bench, settings.probing)],
        "semi": lambda: semi_trials(bench, settings.few_labels),
        "distill": lambda: distill_trials(bench, settings.few_labels, settings.distilling),
        "transfer": lambda: transfer_trials(bench, settings.transfer, missing),
    }
    if unknown := [name for name in protocols if name not in makers]:
        raise UserError(f"protocol: there is no {unknown[0]!r}{nearest(unknown[0], makers)}")
    for name in protocols:
        yield from makers[name]()


def _linear_trial(bench: Bench, probing: Probing | None) -> Trial:
    return features_trial(bench, "linear", linear, {}) if probing is None else _probe_trial(bench, probing)


def _probe_trial(bench: Bench, probing: Probing) -> Trial:
    train, test = bench.images("train"), bench.centre(lambda size: bench.images("test", size))

    def judge(encoder: Encoder) -> Judgement:
        return Judgement(*probe(encoder, train, test, probing, seed=bench.seed, device=bench.device))

    return Trial("linear", {"form": "augmented", **asdict(probing)}, {"train": train, "test": test}, judge)


def _score(trial: Trial, bench: Bench, recipe: Mapping[str, Any]) -> dict[str, Any]:
    judged = _judge(trial, bench)
    control = _judge_control(trial, bench)
    return {
        "protocol": trial.protocol,
        "settings": dict(trial.settings),
        "metrics": judged.metrics,
        "control": control.metrics,
        "chosen": {"encoder": judged.chosen, "control": control.chosen},
        **trial.facts,
        **({"labels_seen": True} if recipe["method"] == SUPERVISED else {}),
        "data": {part: images.facts() for part, images in trial.data.items()},
        "source": bench.source,
        "data_root": str(bench.root),
        "classes": len(trial.data["test"].classes),
        "on": bench.on,
        "image_size": bench.size,
        "step": bench.encoder.step,
        "seed": bench.seed,
        "recipe": recipe["name"],
        "recipe_hash": recipe["hash"],
        "commit": commit(),
        "seconds": round(judged.seconds, 2),  # of the trained encoder, without what was kept; the control takes as long
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _judge(trial: Trial, bench: Bench) -> Judgement:
    """The trained encoder's turn."""

    def judge() -> dict[str, Any]:
        began = time.monotonic()
        return asdict(replace(trial.judge(bench.encoder), seconds=time.monotonic() - began))

    facts = _facts(trial, bench, bench.encoder)
    return Judgement(**bench.kept.recall(facts, judge, lambda found: is_judgement(found) and found["metrics"]))


def _judge_control(trial: Trial, bench: Bench) -> Judgement:
    """The random encoder's turn; methods of one shape and seed have the same one, which need not be judged for each."""
    facts = _facts(trial, bench, bench.control())
    key = json.dumps(facts)
    if key not in CONTROLS:
        found = bench.kept.recall(facts, lambda: asdict(_try_control(trial, bench)), is_judgement)
        CONTROLS[key] = Judgement(**found)
    return CONTROLS[key]


def _facts(trial: Trial, bench: Bench, encoder: Encoder) -> list[Any]:
    """All that a judgement depends on."""
    data = {part: images.digest() for part, images in trial.data.items()}
    where = [bench.seed, str(bench.device), torch.get_num_threads()]
    return [fingerprint(encoder), trial.own, *where, trial.protocol, dict(trial.settings), data]


def _try_control(trial: Trial, bench: Bench) -> Judgement:
    """Should its training diverge, the score of the trained one is not lost."""
    try:
        with progress_of(CONTROL):
            return trial.judge(bench.control())
    except DivergedError as error:
        bench.say(f"the random encoder: {error}")
        return Judgement({}, {"diverged": str(error)})


def _write_neighbours(bench: Bench) -> None:
    test = bench.images("test")
    features = bench.features(bench.encoder, test)
    with progress_of(CONTROL):
        control = bench.features(bench.control(), test)
    if distributed.is_main():
        write_neighbours(bench.run / "neighbours.json", features, control, test)


def _read_recipe(run: Path) -> dict[str, Any]:
    """The recipe as plain values; of the method evaluation asks only whether it saw labels."""
    file = run / "recipe.json"
    try:
        content = read_json(file)
        recipe = {name: content[name] for name in ("name", "method", "data", "seed", "image_size", "hash")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file}: cannot be read ({error!r}); is {run} a run?") from error
    try:
        for name in recipe.keys() - {"hash"}:
            check_field(name, recipe[name])
    except UserError as error:
        raise UserError(f"{file}: {error}") from error
    return {**recipe, "hash": str(recipe["hash"])}


def _in_words(score: Mapping[str, Any]) -> str:
    name, value = next(iter(score["metrics"].items()))
    control, settings = score["control"].get(name), score["settings"]
    which = settings.get("set") or (f"{settings['labels']:.3g} of the labels" if "labels" in settings else "")
    title = f"{score['protocol']}{f', {which}' if which else ''}"
    words = {"top1": "top-1", "mean_per_class": "mean per class", "map11": "11-point mAP"}[name]
    beside = "" if control is None else f", a random encoder {control:.1f} % ({value - control:+.1f} points)"
    return f"{title}: {words} {value:.1f} %{beside}"
