"""Pretraining from a recipe: open the run folder and the images, then train."""

import json
from pathlib import Path
from typing import Any

import torch

from hardpair import distributed
from hardpair.data import open_images
from hardpair.errors import UserError
from hardpair.files import read_json, write_atomically
from hardpair.recipes import Recipe
from hardpair.train.device import pick_device
from hardpair.train.group import process_group, was_restarted
from hardpair.train.lock import sole_writer
from hardpair.train.trainer import Outcome, Trainer


def pretrain(
    recipe: Recipe,
    run: Path,
    *,
    resume: bool = False,
    data_root: Path = Path("data"),
    device: str = "auto",
    checkpoint_every: int = 200,
    until: int | None = None,
    shard: bool = False,
    compiled: bool = False,
) -> Outcome:
    """Train the recipe's method, to the end or to step ``until``, and leave encoder, checkpoints and log in ``run``."""
    place = pick_device(device)
    if shard and compiled:
        raise UserError("compile: --compile cannot be combined with --shard; leave one of them out")
    with process_group(place):
        again = distributed.any_rank(was_restarted(), device=place)[0]
        return _pretrain(recipe, run, resume or again, data_root, place, checkpoint_every, until, shard, compiled)


def _pretrain(
    recipe: Recipe,
    run: Path,
    resume: bool,
    data_root: Path,
    device: torch.device,
    checkpoint_every: int,
    until: int | None,
    shard: bool,
    compiled: bool,
) -> Outcome:
    check_run(recipe, run, resume=resume)
    if shard and distributed.world_size() == 1:
        raise UserError("shard: there is only this process to hold the network; start several with torchrun")
    if recipe.batch_size % (ranks := distributed.world_size()):
        raise UserError(f"batch_size: {recipe.batch_size} cannot be divided among {ranks} processes; give a multiple")
    with distributed.main_first():  # whatever has to be fetched or decoded is so only once
        images = open_images(recipe.data, "train", size=recipe.image_size, root=data_root)
    facts = images.facts()
    distributed.require_equal(f"the images of {images.name}", facts["digest"], device=device)
    if recipe.batch_size > len(images):
        raise UserError(f"batch_size: {recipe.batch_size} is more than the {len(images)} images of {images.name}")
    _check_images(facts, run)
    trainer = Trainer(
        recipe, run, images, device, checkpoint_every, shard=shard, compiled=compiled, data_root=data_root
    )  # a bad setting shows here, nothing written yet
    run.mkdir(parents=True, exist_ok=True)
    with sole_writer(run):
        if distributed.is_main():
            write_atomically(run / "data.json", json.dumps(facts, indent=2).encode())
            write_atomically(run / "recipe.json", json.dumps(recipe.to_json(), indent=2).encode())
        return trainer.run_to_end() if until is None else trainer.run_until(until)


def check_run(recipe: Recipe, run: Path, *, resume: bool, option: str = "--run") -> None:
    """Refuse to mix two runs in one folder; ``option`` is what the user may choose another one with."""
    file = run / "recipe.json"
    if run.exists() and not run.is_dir():
        raise UserError(f"{run}: is a file; choose another place with {option}")
    if not run.exists() or _hardly_begun(run):
        return
    if not resume:
        raise UserError(f"{run}: already exists; continue it with --resume, or choose another place with {option}")
    if not file.exists():
        raise UserError(f"{run}: holds no recipe.json, so it is no run; choose another place with {option}")
    try:
        old = Recipe.from_json(read_json(file))
    except ValueError as error:
        raise UserError(f"{file}: cannot be read ({error}); choose another place with {option}") from error
    before, now = _flat(old), _flat(recipe)
    changed = [name for name in now if now[name] != before.get(name)]
    if (run / "data.json").exists():  # the images may have moved: their hash decides, once they are open
        changed = [name for name in changed if name != "data"]
    if changed:
        words = ", ".join(f"{name} was {before.get(name)} and is now {now[name]}" for name in changed)
        raise UserError(f"{run}: cannot resume with other settings: {words}; choose another place with {option}")


def _hardly_begun(run: Path) -> bool:
    """Whether there is nothing but what is written before the recipe, by a run that was killed at once."""
    return all(path.name in ("lock", "data.json") or path.suffix == ".tmp" for path in run.iterdir())


def _check_images(facts: dict[str, Any], run: Path) -> None:
    """Refuse to go on with other images than the run began with: order and result would silently change."""
    file = run / "data.json"
    try:
        same = not file.exists() or read_json(file)["digest"] == facts["digest"]
    except (ValueError, KeyError, TypeError):
        same = False
    if not same:
        raise UserError(
            f"{run}: cannot resume: {facts['name']} has other images than those it began with ({file} has their hash)"
        )


def _flat(recipe: Recipe) -> dict[str, Any]:
    """Everything that decides what is learned, fields and settings side by side."""
    content = recipe.to_json()
    settings = content.pop("settings")
    return {name: value for name, value in {**content, **settings}.items() if name not in ("hash", "name")}
