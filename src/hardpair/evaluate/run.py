"""Judge the encoder of a run, with a random encoder of the same shape beside it."""

import inspect
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hardpair.data import Images, hold_out, open_images
from hardpair.errors import UserError
from hardpair.evaluate.control import random_like
from hardpair.evaluate.features import extract
from hardpair.evaluate.knn import knn
from hardpair.evaluate.linear import linear
from hardpair.evaluate.neighbours import write_neighbours
from hardpair.files import append_json, commit
from hardpair.models import Encoder, load_encoder

Labelled = tuple[Tensor, Tensor]  # features (N, D), labels (N,)
PROTOCOLS: dict[str, Callable[..., dict[str, float]]] = {"knn": knn, "linear": linear}


def evaluate_run(
    run: Path,
    protocols: Sequence[str],
    *,
    settings: Mapping[str, Mapping[str, Any]],
    on: str = "test",
    data: str | None,
    data_root: Path,
    device: torch.device,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Score the run's encoder by each protocol, append the scores to ``scores.jsonl`` and return them."""
    encoder = load_encoder(run)
    recipe = _read_recipe(run)
    source, size, seed = data or recipe["data"], recipe["image_size"], recipe["seed"]
    train, test = _open(source, on, size=size, root=data_root)
    say(f"features of {len(train):,} training and {len(test):,} test images of {source}")
    random = random_like(encoder, train, seed=seed, device=device)
    features, control = (_features(e, train, test, device) for e in (encoder, random))
    data_facts = {"train": train.facts(), "test": test.facts()}
    scores = []
    for name in protocols:
        began = time.monotonic()
        protocol, given = PROTOCOLS[name], settings.get(name, {})
        metrics, chosen = _split(protocol(*_with_labels(features, train, test), **given))
        random_metrics, random_chosen = _split(protocol(*_with_labels(control, train, test), **given))
        score = {
            "protocol": name,
            "settings": _all_settings(protocol, given),
            "metrics": metrics,
            "control": random_metrics,
            "chosen": {"encoder": chosen, "control": random_chosen},
            "data": data_facts,
            "on": on,
            "image_size": size,
            "step": encoder.step,
            "seed": seed,
            "recipe": recipe["name"],
            "recipe_hash": recipe["hash"],
            "commit": commit(),
            "seconds": round(time.monotonic() - began, 2),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        append_json(run / "scores.jsonl", score)
        scores.append(score)
        say(f"{name}: {_in_words(score)}")
    write_neighbours(run / "neighbours.json", features[1], control[1], test)
    return scores


def _features(encoder: Encoder, train: Images, test: Images, device: torch.device) -> tuple[Tensor, Tensor]:
    return extract(encoder, train, device), extract(encoder, test, device)


def _with_labels(features: tuple[Tensor, Tensor], train: Images, test: Images) -> tuple[Labelled, Labelled]:
    assert train.labels is not None
    assert test.labels is not None
    return (features[0], train.labels), (features[1], test.labels)


def _split(result: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """What was measured, and what the protocol chose on the way (linear's strength)."""
    measured = {name: value for name, value in result.items() if name.startswith("top")}
    return measured, {name: value for name, value in result.items() if name not in measured}


def _all_settings(protocol: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The protocol's settings with their defaults: a score must say all that made it."""
    parameters = inspect.signature(protocol).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY} | dict(given)


def _open(source: str, on: str, *, size: int, root: Path) -> tuple[Images, Images]:
    """Training and test images; for choices, a class-balanced fifth of the training images takes the test's place."""
    train = open_images(source, "train", size=size, root=root)
    if train.labels is None:
        raise UserError(f"{source}: has no labels, so it cannot be judged; give a labelled set with --data")
    if on == "validation":
        kept, held = hold_out(train.labels, share=0.2, seed=0)
        return train.select(kept), replace(train.select(held), name=train.name.replace("train", "validation"))
    test = open_images(source, "test", size=size, root=root)
    if test.labels is None:
        raise UserError(f"{source}: its test images have no labels; give a labelled set with --data")
    return train, test


def _read_recipe(run: Path) -> dict[str, Any]:
    """The recipe as plain values; evaluation asks for four of them and knows no method."""
    try:
        recipe = json.loads((run / "recipe.json").read_text())
        kinds = {"name": str, "hash": str, "data": str, "seed": int, "image_size": int}
        return {name: kind(recipe[name]) for name, kind in kinds.items()}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{run / 'recipe.json'}: cannot be read ({error!r}); is {run} a run?") from error


def _in_words(score: Mapping[str, Any]) -> str:
    top1, control = score["metrics"]["top1"], score["control"]["top1"]
    return f"top-1 {top1:.1f} %, a random encoder {control:.1f} % ({top1 - control:+.1f} points)"
