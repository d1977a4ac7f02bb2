"""A recipe for somebody's own photos, chosen from the photos, the machine and the time there is.

Encoders and image sizes stand on a ladder, from cheap to dear. A dearer one ends better if it sees enough images, so
the choice is the highest rung that, at the speed of real steps timed here, gets through as many as it needs.
docs/log.md has the runs behind the ladder.
"""

import dataclasses
import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from hardpair.data import Images, only_size, outline_images, shorter_side
from hardpair.data.images import LEAST_SIZE
from hardpair.errors import UserError, require_range
from hardpair.models import DEPTHS
from hardpair.precision import Precision
from hardpair.recipes import Recipe
from hardpair.text import duration, several, sides
from hardpair.train.choose_precision import choose_precision, seconds_per_image
from hardpair.train.parallel import pick_device, started_together

HOURS = 1.0  # when none are given
SHARE = 0.95  # of the time that steps get; the rest goes to decoding, checkpoints and the hardest pairs
BATCH = 160  # of the rates below and of the recipe's; a rate follows its batch
MOST_EPOCHS = 1000  # the longest of published runs
FEWEST_STEPS = 8  # per epoch, which a batch must leave


@dataclass(frozen=True)
class Rung:
    """An encoder and the images it sees, and how many of these it needs to end better than the rung below."""

    image_size: int
    view_size: float
    encoder: str
    width: float
    needs: float  # images seen in training


SMALL, LARGE = 32, 48  # pixels: the first rungs of small and of larger photos
LADDER = (
    Rung(32, 0.75, "resnet10", 0.25, 0),
    Rung(32, 0.75, "resnet10", 0.5, 1e6),
    Rung(32, 0.75, "resnet18", 0.5, 3e6),
    Rung(32, 0.75, "resnet18", 1.0, 1e7),
    Rung(48, 0.67, "resnet10", 0.25, 3e4),
    Rung(64, 0.75, "resnet10", 0.25, 2e5),
    Rung(64, 0.75, "resnet10", 0.5, 1e6),
    Rung(96, 0.67, "resnet18", 0.5, 3e6),
    Rung(128, 0.75, "resnet18", 1.0, 1e7),
    Rung(256, 0.875, "resnet50", 1.0, 3e7),
)
SIZES = (64, 96, 128, 160, 224)
"""Pixels for an encoder that is given, or comes with its weights, and has a stem for large images."""
LARGEST_SMALL = 64  # pixels of views up to which ResNets get the stem for small images
ENLARGED = 1.15  # times as large as the photos are; more would invent pixels
TIMM_RATE = 1e-3  # of AdamW at a batch of BATCH
INIT_RATE = 1e-3  # of weights that know something already


@dataclass(frozen=True)
class Choice:
    """The recipe, and why it is this one, in a few lines."""

    recipe: Recipe
    reasons: tuple[str, ...]


def choose_recipe(recipe: Recipe, given: Collection[str], *, hours: float | None, device: str) -> Choice:
    """Fill in what was not ``given``: image and view size, stem, encoder, batch, rate, precision and epochs."""
    require_range("hours", HOURS if hours is None else hours, 1e-4, 10_000)
    if started_together() > 1:
        raise UserError("hours: a recipe for photos is chosen in one process; name one of `hardpair recipes` instead")
    place, seconds = pick_device(device), SHARE * 3600 * (HOURS if hours is None else hours)
    side = shorter_side(recipe.data)
    if (only := only_size(recipe.data)) is not None and "image_size" not in given:
        recipe, given = replace(recipe, image_size=only), {*given, "image_size"}
    images = outline_images(recipe.data, size=only or LEAST_SIZE).images  # only counted, so small ones will do
    rungs = _possible(_for_encoder(_with_batch(recipe, given, len(images)), given), given, side)
    precision = f"{recipe.precision}, as given"
    if recipe.precision == "auto":
        chosen, precision = choose_precision(rungs[0].recipe, _blank(rungs[0].recipe, len(images)), place)
        rungs = [replace(rung, recipe=replace(rung.recipe, precision=chosen.precision)) for rung in rungs]
    seen = recipe.epochs * len(images) if "epochs" in given else None
    best = _climb(rungs, place, seconds, len(images), seen)
    chosen, per_epoch = best.recipe, best.seconds * len(images)
    if "epochs" not in given:
        if (epochs := math.floor(seconds / per_epoch)) < 1:
            raise UserError(_too_short(chosen, per_epoch, len(images)))
        chosen = replace(chosen, epochs=min(epochs, MOST_EPOCHS))
    labels = f", {len(images.classes)} classes" if images.labels is not None else ", no labels"
    more = "" if hours else "; --hours takes another time"
    return Choice(
        chosen,
        (
            f"photos: {len(images):,}{labels}, shorter sides of about {side} px",
            f"machine: {place}, {several(torch.get_num_threads(), 'thread')}; {precision.removeprefix('precision: ')}",
            f"images: {sides(chosen.image_size, chosen.view_pixels)}",
            f"encoder: {chosen.encoder}, width {chosen.width:g}, {1 / best.seconds:,.0f} images/s; {best.why}",
            f"batch: {chosen.batch_size} images, {chosen.optimiser} at a rate of {chosen.learning_rate:g}",
            f"length: {several(chosen.epochs, 'epoch')}, about {duration(chosen.epochs * per_epoch)}{more}",
        ),
    )


def _with_batch(recipe: Recipe, given: Collection[str], images: int) -> Recipe:
    """A batch that leaves an epoch some steps, and the rate that goes with it."""
    if "batch_size" not in given:
        recipe = replace(recipe, batch_size=max(2, min(recipe.batch_size, images // FEWEST_STEPS)))
    if "learning_rate" not in given:
        recipe = replace(recipe, learning_rate=recipe.learning_rate * recipe.batch_size / BATCH)
    return recipe


def _for_encoder(recipe: Recipe, given: Collection[str]) -> Recipe:
    """How timm's models are usually trained, and a lower rate for weights that know something."""
    usual: dict[str, Any] = {}
    if recipe.encoder not in DEPTHS:
        usual = {"optimiser": "adamw", "weight_decay": 0.05, "learning_rate": TIMM_RATE * recipe.batch_size / BATCH}
    elif recipe.init:
        usual = {"learning_rate": INIT_RATE * recipe.batch_size / BATCH}
    return replace(recipe, **{name: value for name, value in usual.items() if name not in given})


@dataclass(frozen=True)
class Candidate:
    """A rung with everything else that a recipe needs."""

    recipe: Recipe
    needs: float
    seconds: float = 0.0  # per image, once it was timed
    why: str = ""


def _possible(recipe: Recipe, given: Collection[str], side: int) -> list[Candidate]:
    """The rungs that agree with what was given and do not enlarge the photos, from cheap to dear."""
    if recipe.init or recipe.encoder not in DEPTHS or (not recipe.small_images and "small_images" in given):
        ladder = [Rung(size, 1.0, recipe.encoder, recipe.width, 1e5 * (size / 64) ** 2) for size in SIZES]
        first, fixed = SIZES[0], {*given, "encoder", "width", "small_images"}
    else:
        ladder, fixed = list(LADDER), {*given, *(("width",) if "encoder" in given else ())}
        first = SMALL if side * ENLARGED < LARGE else LARGE
    found: dict[str, Candidate] = {}
    for place, rung in enumerate(ladder):
        fits = first <= rung.image_size <= side * ENLARGED or "image_size" in given
        if fits or place == 0:  # the first is there for tiny photos, and when there is no time for more
            free = {name: value for name, value in dataclasses.asdict(rung).items() if name not in fixed}
            needs = free.pop("needs")
            made = replace(recipe, **free)
            if "small_images" not in fixed:
                made = replace(made, small_images=made.view_pixels <= LARGEST_SMALL)
            found.setdefault(json.dumps(free), Candidate(made, needs))  # rungs that differ in fixed fields are one
    return list(found.values())


def _climb(
    rungs: Sequence[Candidate], device: torch.device, seconds: float, images: int, to_see: int | None
) -> Candidate:
    """The highest rung that sees as many images in the time as it needs, timed from the lowest upwards.

    It sees as many as fit into the time or, with ``to_see``, so many, if that is possible in the time.
    """
    best = rungs[0]
    for place, rung in enumerate(rungs):
        recipe = rung.recipe
        timed = seconds_per_image(recipe, _blank(recipe, images), device, [_plain(recipe.precision)])
        per_image = min(timed.values())
        seen = seconds / per_image if to_see is None else min(to_see, seconds / per_image)
        if place and (seen < rung.needs or (to_see is not None and seen < to_see)):
            dearer = f"{recipe.encoder} of width {recipe.width:g} at {recipe.view_pixels} px"
            needed = max(rung.needs, to_see or 0)
            why = f"{dearer} would see {_millions(seen)} images in the time, and needs {_millions(needed)}"
            return replace(best, why=why)
        best = replace(rung, seconds=per_image)
    return replace(best, why="the largest choice for these photos")


def _plain(precision: str) -> Precision:
    return "bfloat16" if precision == "bfloat16" else "float32"


def _millions(images: float) -> str:
    return f"{images / 1e6:.2g} M"


def _blank(recipe: Recipe, images: int) -> Images:
    """As many images of the recipe's size, which take no memory: steps take as long with any pixels."""
    return outline_images(recipe.data, size=recipe.image_size, count=images).images


def _too_short(recipe: Recipe, per_epoch: float, images: int) -> str:
    """What fits: more time, or fewer images."""
    return (
        f"hours: too short for one epoch: {images:,} images take {duration(per_epoch)} here with the smallest encoder "
        f"({recipe.encoder}, views of {recipe.view_pixels} px); give --hours {per_epoch / SHARE / 3600:.2g} or more, "
        "or a folder with fewer images"
    )
