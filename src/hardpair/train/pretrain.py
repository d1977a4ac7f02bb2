"""Pretraining from a recipe: check the run folder, open the images, then train."""

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

from hardpair import distributed
from hardpair.data import Images, open_images
from hardpair.errors import UserError
from hardpair.files import read_json, write_atomically
from hardpair.recipes import Recipe
from hardpair.train.callbacks import Callback, callbacks_of
from hardpair.train.choose_precision import choose_precision
from hardpair.train.parallel import pick_device, process_group, was_restarted
from hardpair.train.run_folder import sole_writer
from hardpair.train.trainer import Outcome, Trainer

Lengthened = list[dict[str, int]]  # {from_epochs, to_epochs, at_step}, one for each time a run was lengthened


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
    skip_broken: float = 0.0,
    callback: Callback | None = None,
    tensorboard: bool = False,
) -> Outcome:
    """Train the recipe's method, to the end or to step ``until``, and leave encoder, checkpoints and log in ``run``.

    With ``resume``, a recipe of more epochs than the run has lengthens it: the schedules of learning rate and τ go on
    at the progress that the last checkpoint has in the longer run, and ``lengthened`` in recipe.json says so.
    """
    place = pick_device(device)
    if shard and compiled:
        raise UserError("compile: --compile cannot be combined with --shard; leave one of them out")
    with callbacks_of(run, callback, tensorboard=tensorboard) as callbacks, process_group(place):
        resume = resume or distributed.any_rank(was_restarted(), device=place)[0]
        recipe = _as_begun(recipe, run) if resume else recipe
        before, lengthened = check_run(recipe, run, resume=resume, may_lengthen=True)
        _check_ranks(recipe, shard=shard)
        with distributed.main_first():  # whatever has to be downloaded or decoded is so only once
            images = open_images(recipe.data, "train", size=recipe.image_size, root=data_root, skip_broken=skip_broken)
        facts = images.facts()
        distributed.require_equal(f"the images of {images.name}", facts["digest"], device=place)
        _check_images(recipe, images, facts, run)
        # A bad setting shows here, when nothing is written yet.
        where: dict[str, Any] = {"data_root": str(data_root), **({"skip_broken": skip_broken} if skip_broken else {})}
        if recipe.precision == "auto":
            recipe, why = choose_precision(recipe, images, place)
            where["precision_check"] = why
            if distributed.is_main():
                print(why, flush=True)
        trainer = Trainer(
            recipe,
            run,
            images,
            place,
            checkpoint_every,
            shard=shard,
            compiled=compiled,
            opened=where,
            callbacks=callbacks,
        )
        run.mkdir(parents=True, exist_ok=True)
        with sole_writer(run):
            if before is not None and before < recipe.epochs:
                lengthened = [*lengthened, *trainer.lengthen(before)]
            if distributed.is_main():
                write_atomically(run / "data.json", json.dumps(facts, indent=2).encode())
                write_atomically(run / "recipe.json", json.dumps(recipe_content(recipe, lengthened), indent=2).encode())
            return trainer.run(until)


def _as_begun(recipe: Recipe, run: Path) -> Recipe:
    """A run keeps the precision that was chosen when it began."""
    if recipe.precision != "auto" or not (run / "recipe.json").is_file():
        return recipe
    return dataclasses.replace(recipe, precision=recipe_of(run).precision)


def recipe_of(run: Path) -> Recipe:
    """The recipe that a run was trained with."""
    return _read_recipe(run, "choose another --run")[0]


def recipe_content(recipe: Recipe, lengthened: Lengthened) -> dict[str, Any]:
    """recipe.json; a lengthened run has another hash than one that had its length from the beginning."""
    content = recipe.to_json()
    if lengthened:
        whole = json.dumps([content["hash"], lengthened], sort_keys=True)
        content |= {"hash": hashlib.sha256(whole.encode()).hexdigest()[:16], "lengthened": lengthened}
    return content


def check_run(
    recipe: Recipe, run: Path, *, resume: bool, option: str = "--run", may_lengthen: bool = False
) -> tuple[int | None, Lengthened]:
    """Refuse to mix two runs in one folder; ``option`` is what the user may choose another one with.

    Returns the epochs of the run that is there, if any, and how it was lengthened.
    """
    elsewhere = f"choose another place with {option}"
    if run.exists() and not run.is_dir():
        raise UserError(f"{run}: is a file; {elsewhere}")
    if not run.exists() or _hardly_begun(run):
        return None, []
    if not resume:
        raise UserError(f"{run}: already exists; continue it with --resume (resume=True in Python), or {elsewhere}")
    old, lengthened = _read_recipe(run, elsewhere)
    changed = _changes(old, recipe, run)
    if may_lengthen and recipe.epochs > old.epochs:
        changed.pop("epochs")
    if changed:
        words = ", ".join(f"{name} was {before} and is now {now}" for name, (before, now) in changed.items())
        raise UserError(f"{run}: cannot resume with other settings: {words}; {elsewhere}")
    if lengthened and not may_lengthen:
        raise UserError(f"{run}: was lengthened, so it is another run; {elsewhere}")
    return old.epochs, lengthened


def _read_recipe(run: Path, elsewhere: str) -> tuple[Recipe, Lengthened]:
    file = run / "recipe.json"
    if not file.exists():
        raise UserError(f"{run}: holds no recipe.json, so it is no run; {elsewhere}")
    try:
        content = read_json(file)
        lengthened = content.pop("lengthened", []) if isinstance(content, dict) else []
        if not isinstance(lengthened, list):
            raise ValueError("lengthened is not a list")
        return Recipe.from_json(content), lengthened
    except ValueError as error:
        raise UserError(f"{file}: cannot be read ({error}); {elsewhere}") from error


def _changes(old: Recipe, new: Recipe, run: Path) -> dict[str, tuple[Any, Any]]:
    """What decides what is learned, before and now, where the two differ."""
    before, now = _flat(old), _flat(new)
    changed = {name: (before.get(name), value) for name, value in now.items() if value != before.get(name)}
    if (run / "data.json").exists():  # the images may have moved: their hash decides, once they are open
        changed.pop("data", None)
    return changed


def _hardly_begun(run: Path) -> bool:
    """Whether there is nothing but what is written before the recipe, by a run that was killed at once."""
    return all(path.name in ("lock", "data.json") or path.suffix == ".tmp" for path in run.iterdir())


def _flat(recipe: Recipe) -> dict[str, Any]:
    """Everything that decides what is learned, fields and settings side by side."""
    content = recipe.to_json()
    settings = content.pop("settings")
    return {name: value for name, value in {**content, **settings}.items() if name not in ("hash", "name")}


def _check_ranks(recipe: Recipe, *, shard: bool) -> None:
    ranks = distributed.world_size()
    if shard and ranks == 1:
        raise UserError("shard: there is only this process to hold the network; start several with torchrun")
    if recipe.batch_size % ranks:
        raise UserError(f"batch_size: {recipe.batch_size} cannot be divided among {ranks} processes; give a multiple")


def _check_images(recipe: Recipe, images: Images, facts: dict[str, Any], run: Path) -> None:
    """Enough of them, and those that the run began with: else order and result would silently change."""
    if recipe.batch_size > len(images):
        raise UserError(f"batch_size: {recipe.batch_size} is more than the {len(images)} images of {images.name}")
    file = run / "data.json"
    try:
        same = not file.exists() or read_json(file)["digest"] == facts["digest"]
    except (ValueError, KeyError, TypeError):
        same = False
    if not same:
        raise UserError(
            f"{run}: cannot resume: {facts['name']} has other images than those it began with ({file} has their hash)"
        )
