"""Judge the encoder of a run, with a random encoder of the same shape beside it."""

import inspect
import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hardpair.data import Images, open_images
from hardpair.errors import UserError
from hardpair.evaluate.features import extract
from hardpair.evaluate.knn import knn
from hardpair.evaluate.linear import linear
from hardpair.evaluate.neighbours import write_neighbours
from hardpair.files import commit
from hardpair.models import Encoder, build_encoder, load_encoder

Labelled = tuple[Tensor, Tensor]  # features (N, D), labels (N,)
PROTOCOLS: dict[str, Callable[..., dict[str, float]]] = {"knn": knn, "linear": linear}


def evaluate_run(
    run: Path,
    protocols: Sequence[str],
    *,
    settings: Mapping[str, Mapping[str, Any]],
    data: str | None,
    data_root: Path,
    device: torch.device,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Score the run's encoder by each protocol, append the scores to ``scores.jsonl`` and return them."""
    encoder = load_encoder(run)
    recipe = _read_recipe(run)
    source, size, seed = data or recipe["data"], int(recipe["image_size"]), int(recipe["seed"])
    train, test = (open_images(source, split, size=size, root=data_root) for split in ("train", "test"))
    if train.labels is None or test.labels is None:
        raise UserError(f"{source}: has no labels, so it cannot be judged; give a labelled set with --data")
    say(f"features of {len(train):,} training and {len(test):,} test images of {source}")
    features, control = (_features(e, train, test, device) for e in (encoder, random_like(encoder, seed)))
    scores = []
    for name in protocols:
        began = time.monotonic()
        protocol, given = PROTOCOLS[name], settings.get(name, {})
        score = {
            "protocol": name,
            "settings": _all_settings(protocol, given),
            "metrics": protocol(*_with_labels(features, train, test), **given),
            "control": protocol(*_with_labels(control, train, test), **given),
            "data": {split: _describe(images) for split, images in (("train", train), ("test", test))},
            "image_size": size,
            "seed": seed,
            "recipe": recipe["name"],
            "recipe_hash": recipe["hash"],
            "commit": commit(),
            "seconds": round(time.monotonic() - began, 2),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        with (run / "scores.jsonl").open("a") as file:
            file.write(json.dumps(score) + "\n")
        scores.append(score)
        say(f"{name}: {_in_words(score)}")
    write_neighbours(run / "neighbours.json", features, control, test)
    return scores


def random_like(encoder: Encoder, seed: int) -> Encoder:
    """An untrained encoder of the same shape, in eval mode."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build_encoder(**encoder.settings).eval()


def _features(encoder: Encoder, train: Images, test: Images, device: torch.device) -> tuple[Tensor, Tensor]:
    return extract(encoder, train, device), extract(encoder, test, device)


def _with_labels(features: tuple[Tensor, Tensor], train: Images, test: Images) -> tuple[Labelled, Labelled]:
    assert train.labels is not None
    assert test.labels is not None
    return (features[0], train.labels), (features[1], test.labels)


def _all_settings(protocol: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The protocol's settings with their defaults: a score must say all that made it."""
    parameters = inspect.signature(protocol).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY} | dict(given)


def _describe(images: Images) -> dict[str, Any]:
    return {"name": images.name, "images": len(images), "digest": images.digest()}


def _read_recipe(run: Path) -> dict[str, Any]:
    try:
        recipe: dict[str, Any] = json.loads((run / "recipe.json").read_text())
        return recipe
    except (OSError, ValueError) as error:
        raise UserError(f"{run / 'recipe.json'}: cannot be read ({error}); is {run} a run?") from error


def _in_words(score: Mapping[str, Any]) -> str:
    top1, control = score["metrics"]["top1"], score["control"]["top1"]
    return f"top-1 {top1:.1f} %, a random encoder {control:.1f} % ({top1 - control:+.1f} points)"
