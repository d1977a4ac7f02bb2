"""From the folder of a run to lines of ``scores.jsonl``: its encoder, and a random one of the same shape.

The way of a score: `evaluate_run` asks PROTOCOLS for tasks, `_score` lets each task measure both encoders, and the
measurements become one line. `knn`, `linear` and the others are plain functions that know nothing of runs.
"""

import itertools
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import torch

from hardpair import distributed
from hardpair.data.layout import NAMES, as_folder
from hardpair.data.progress import progress_of
from hardpair.errors import UserError, nearest, shown
from hardpair.evaluate.context import Context, Measurement, Task, is_measurement
from hardpair.evaluate.distill import distill_tasks
from hardpair.evaluate.knn import knn_tasks
from hardpair.evaluate.linear import linear_tasks
from hardpair.evaluate.semi import semi_tasks
from hardpair.evaluate.transfer import transfer_table, transfer_tasks
from hardpair.files import append_json, commit, read_json
from hardpair.models import Encoder, fingerprint, load_encoder
from hardpair.precision import Precision, emulation
from hardpair.protocol_settings import Settings
from hardpair.recipes import SUPERVISED, check_field, tested_side
from hardpair.train.labelled import DivergedError
from hardpair.train.neighbours import write_neighbours

PROTOCOLS: dict[str, Callable[[Context, Settings], Iterable[Task]]] = {
    "knn": knn_tasks,
    "linear": linear_tasks,
    "semi": semi_tasks,
    "distill": distill_tasks,
    "transfer": transfer_tasks,
}
CONTROL = "random encoder"  # before the progress of its work
CONTROLS: dict[str, Measurement] = {}
"""Random encoders measured in this process: runs of one shape and seed share them."""


def evaluate_run(
    run: Path,
    protocols: Sequence[str],
    *,
    settings: Settings | None = None,
    on: Literal["test", "validation"] = "test",
    data: str | None = None,
    size: int | None = None,
    data_root: Path,
    skip_broken: float = 0.0,
    precision: Precision = "float32",
    device: torch.device,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Score the run's encoder by each protocol, append the scores to ``scores.jsonl`` and return them."""
    settings = settings or Settings()
    _check_protocols(protocols, settings)
    encoder, recipe = load_encoder(run), _read_recipe(run)
    _compute_in(precision, encoder, device, say)
    _check_recipe(run, recipe, protocols, say)
    source = _images_of(run, recipe, protocols) if data is None else data
    context = Context(
        run,
        encoder,
        source,
        _size(size, recipe, encoder),
        recipe["seed"],
        on,
        data_root,
        device,
        say,
        skip_broken,
        trained_at=recipe["image_size"],
    )
    scores, failures = [], []
    for task in itertools.chain.from_iterable(PROTOCOLS[name](context, settings) for name in protocols):
        try:
            scores.append(_score(task, context, recipe))
        except DivergedError as error:  # the others may still succeed
            failures.append(str(error))
            say(f"{task.protocol}: {error}")
            continue
        if distributed.is_main():
            append_json(run / "scores.jsonl", scores[-1])
        say(_in_words(scores[-1]))
    if on == "test" and {"knn", "linear"} & set(protocols):  # the report shows test images
        _write_neighbours(context)
    if "transfer" in protocols:
        say(transfer_table(scores, context.missing_sets))
    context.partial_results.clear()
    if failures:
        raise UserError(failures[0])
    if not scores:
        raise UserError(f"none of the transfer sets asked for is below {data_root}; give their folder with --data-root")
    return scores


def _compute_in(precision: Precision, encoder: Encoder, device: torch.device, say: Callable[[str], None]) -> None:
    encoder.precision = precision
    if emulated := emulation(precision, device):
        say(f"features in {precision}{emulated}")


def _check_protocols(protocols: Sequence[str], settings: Settings) -> None:
    """Names that exist; and with several ranks, which share the work on features, none that trains a network."""
    trains = {"semi", "distill"}
    trains |= {"linear"} if settings.tuned.augmented else set()
    trains |= {"transfer"} if settings.transferred.finetune else set()
    for name in protocols:
        if name not in PROTOCOLS:
            raise UserError(f"protocol: there is no {name!r}{nearest(name, PROTOCOLS)}")
        if name in trains and distributed.world_size() > 1:
            raise UserError(f"{name}: trains a network, which one process does; start it without torchrun")


def _read_recipe(run: Path) -> dict[str, Any]:
    """The recipe as plain values; evaluation asks of the method only whether it saw labels."""
    file = run / "recipe.json"
    try:
        content = read_json(file)
        recipe = {name: content[name] for name in ("name", "method", "data", "seed", "image_size", "hash")}
        recipe["view_size"] = content.get("view_size", 1.0)  # there are recipes that are older than it
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file}: cannot be read ({error!r}); is {run} a run?") from error
    try:
        for name in recipe.keys() - {"hash"}:
            check_field(name, recipe[name])
    except UserError as error:
        raise UserError(f"{file}: {error}") from error
    return {**recipe, "hash": str(recipe["hash"])}


def _size(asked: int | None, recipe: Mapping[str, Any], encoder: Encoder) -> int:
    """Pixels of a side of what the encoder is shown: those asked for, if it can take them, or what it is made for."""
    if asked is not None:
        encoder.require_sizes({asked})
        return asked
    return tested_side(
        recipe["image_size"], recipe["view_size"], small_images=encoder.settings.get("small_images", False)
    )


def _check_recipe(run: Path, recipe: Mapping[str, Any], protocols: Sequence[str], say: Callable[[str], None]) -> None:
    """An encoder that was trained with all labels cannot show what it does with few."""
    if recipe["method"] != SUPERVISED:
        return
    if few := sorted({"semi", "distill"} & set(protocols)):
        raise UserError(f"{few[0]}: {run} was trained with all the labels, so few of them mean nothing")
    say("this encoder was trained with labels; scores say so (labels_seen)")


def _images_of(run: Path, recipe: Mapping[str, Any], protocols: Sequence[str]) -> str:
    """The images the run was trained on, if they are still there; transfer does not need them."""
    source: str = recipe["data"]
    if source.partition(":")[0] in NAMES or set(protocols) == {"transfer"}:
        return source
    try:
        there = as_folder(source).exists()
    except UserError:  # a relative path of one word looks like an unknown name
        there = False
    if not there:
        why = f"{shown(source)}: the images that {run} was trained on are not there"
        raise UserError(f"{why}; give their folder, or other labelled images, with --data FOLDER")
    return source


def _score(task: Task, context: Context, recipe: Mapping[str, Any]) -> dict[str, Any]:
    encoder, control = _measure(task, context), _measure_control(task, context)
    return {
        "protocol": task.protocol,
        "settings": dict(task.settings),
        "metrics": encoder.metrics,
        "control": control.metrics,
        "chosen": {"encoder": encoder.chosen, "control": control.chosen},
        **task.details,
        **({"labels_seen": True} if recipe["method"] == SUPERVISED else {}),
        "data": {split: images.facts() for split, images in task.data.items()},
        "source": context.source,
        "data_root": str(context.root),
        **({"skip_broken": context.skip_broken} if context.skip_broken else {}),
        "classes": len(task.data["test"].classes),
        **({} if context.encoder.precision == "float32" else {"precision": context.encoder.precision}),
        "on": context.on,
        "image_size": context.size,
        "step": context.encoder.step,
        "seed": context.seed,
        "recipe": recipe["name"],
        "recipe_hash": recipe["hash"],
        "commit": commit(),
        "seconds": round(encoder.seconds, 2),  # of the trained encoder since the last start; the control takes as long
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _measure(task: Task, context: Context) -> Measurement:
    """The trained encoder."""

    def timed() -> dict[str, Any]:
        start = time.monotonic()
        return asdict(replace(task.measure(context.encoder), seconds=time.monotonic() - start))

    def is_valid(value: Any) -> bool:
        return is_measurement(value) and bool(value["metrics"])

    facts = _facts(task, context, context.encoder)
    return Measurement(**context.partial_results.get_or_compute(facts, timed, is_valid))


def _measure_control(task: Task, context: Context) -> Measurement:
    """The random encoder, unless this process has measured it already, for a run of the same shape and seed."""
    facts = _facts(task, context, context.control)
    key = json.dumps(facts)
    if key not in CONTROLS:
        found = context.partial_results.get_or_compute(
            facts, lambda: asdict(_try_control(task, context)), is_measurement
        )
        CONTROLS[key] = Measurement(**found)
    return CONTROLS[key]


def _try_control(task: Task, context: Context) -> Measurement:
    """If its training diverges, the score of the trained encoder is not lost."""
    try:
        with progress_of(CONTROL):
            return task.measure(context.control)
    except DivergedError as error:
        context.say(f"the random encoder: {error}")
        return Measurement({}, {"diverged": str(error)})


def _facts(task: Task, context: Context, encoder: Encoder) -> list[Any]:
    """Everything that a measurement depends on."""
    data = {split: images.digest() for split, images in task.data.items()}
    machine = [str(context.device), torch.get_num_threads(), encoder.precision]
    return [fingerprint(encoder), task.head_hash, context.seed, *machine, task.protocol, dict(task.settings), data]


def _write_neighbours(context: Context) -> None:
    test = context.plain("test")
    features, _ = context.features(context.encoder, test)
    with progress_of(CONTROL):
        control, _ = context.features(context.control, test)
    if distributed.is_main():
        write_neighbours(context.run / "neighbours.json", features, control, test)


def _in_words(score: Mapping[str, Any]) -> str:
    """The line that is printed: the first metric of the encoder and of the control."""
    name, value = next(iter(score["metrics"].items()))
    metric = {"top1": "top-1", "mean_per_class": "mean per class", "map11": "11-point mAP"}[name]
    control = score["control"].get(name)
    beside = "" if control is None else f", a random encoder {control:.1f} % ({value - control:+.1f} points)"
    which = _which(score)
    return f"{score['protocol']}{f', {which}' if which else ''}: {metric} {value:.1f} %{beside}"


def _which(score: Mapping[str, Any]) -> str:
    """The setting that tells scores of one protocol apart."""
    settings = score["settings"]
    if score["protocol"] == "knn":
        used = score["k_used"]
        return f"k={used}" if used == settings["k"] else f"k={used}, all training images instead of {settings['k']}"
    return settings.get("set") or (f"{settings['labels']:.3g} of the labels" if "labels" in settings else "")
