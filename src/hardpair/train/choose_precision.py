"""``precision="auto"``: bfloat16 where the hardware has it and a few real steps are faster with it."""

import dataclasses
import time
from collections.abc import Sequence

import torch

from hardpair import distributed
from hardpair.data import Images
from hardpair.errors import UserError
from hardpair.precision import Precision, has_bfloat16
from hardpair.recipes import Recipe
from hardpair.train.step import Stepper

FEW = 8  # images of the first steps, which tell how many more fit into the time
STEP_SECONDS = 0.5  # of a timed step, about
TURNS = 3  # of each precision
FASTER = 1.05  # less is not worth the rounding


def choose_precision(recipe: Recipe, images: Images, device: torch.device) -> tuple[Recipe, str]:
    """The recipe with a precision in place of "auto", and why; all ranks choose the same."""
    if distributed.any_rank(not has_bfloat16(device), device=device)[0]:
        return _with(recipe, "float32"), "precision: float32, since this hardware has no bfloat16"
    if distributed.world_size() > 1:
        return _with(recipe, "bfloat16"), "precision: bfloat16, which this hardware has"
    seconds = seconds_per_image(recipe, images, device, ("float32", "bfloat16"))
    ratio = seconds["float32"] / seconds["bfloat16"]
    chosen: Precision = "bfloat16" if ratio > FASTER else "float32"
    return _with(recipe, chosen), f"precision: {chosen}; here a step in bfloat16 is {ratio:.2f} times as fast"


def _with(recipe: Recipe, precision: Precision) -> Recipe:
    return dataclasses.replace(recipe, precision=precision)


def seconds_per_image(
    recipe: Recipe, images: Images, device: torch.device, precisions: Sequence[Precision]
) -> dict[Precision, float]:
    """Of real steps with each precision; with few images first, then with as many as a short step holds."""
    try:
        seconds = _timed(recipe, images, device, precisions, FEW)
        batch = min(recipe.batch_size, int(STEP_SECONDS / min(seconds.values())))
    except (ValueError, UserError):  # a method may need more, splits of two images each for example
        return _timed(recipe, images, device, precisions, recipe.batch_size)
    return _timed(recipe, images, device, precisions, batch) if batch > 2 * FEW else seconds


def _timed(
    recipe: Recipe, images: Images, device: torch.device, precisions: Sequence[Precision], batch: int
) -> dict[Precision, float]:
    """The best of a few steps of each precision, in turns, after one of each to warm up."""
    batch = min(batch, recipe.batch_size)
    few = dataclasses.replace(recipe, batch_size=batch, precision=precisions[0], init="")  # steps take as long
    times: dict[Precision, list[float]] = {name: [] for name in precisions}
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        stepper = Stepper(few, images, device)
        stepper.method.train()
        for turn in range(TURNS + 1):
            for name in precisions:
                stepper.recipe = dataclasses.replace(few, precision=name)
                began = time.perf_counter()
                stepper.take(turn % stepper.total)  # waits for the device
                times[name].append((time.perf_counter() - began) / batch)
    return {name: min(taken[1:]) for name, taken in times.items()}
