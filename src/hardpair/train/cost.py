"""What a step costs: operations, memory, time. All is measured, so that no method declares its own."""

import statistics
import time
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from hardpair.data import Images
from hardpair.methods import Method
from hardpair.precision import autocast
from hardpair.recipes import Recipe
from hardpair.train.parallel import pick_device
from hardpair.train.step import Stepper, build_method, fresh_encoder, recipe_draw
from hardpair.views import plain_view

MOST = 256  # images counted at once
HERE_SECONDS, HERE_FLOP = 5.0, 5e11  # of all timed steps on this machine; of one of them, at most
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Here:
    """A step on this machine, timed."""

    device: str
    threads: int
    steps: int  # that were timed
    step_seconds: float


def forward_equivalents(recipe: Recipe, images: Images, *, device: torch.device = CPU) -> float:
    """Floating point operations of one training step ÷ those of one forward of the plain encoder on as many images.

    A forward without gradient counts 1, a forward with its backward about 3: the first convolution needs no gradient
    of its input, which saves a little, and heads and losses add a little. Two streams of half the width, or patches
    that overlap, count as what they are. Making the views, the optimiser and moving averages are not counted, nor is
    anything but matrix products and convolutions.

    The batch is the recipe's own up to 256 images, because comparing all pairs of a batch costs more per image in a
    larger one; beyond that it is 256. Micro-batches count with their second forward.
    """
    rows = torch.arange(min(recipe.batch_size, MOST, len(images)))
    recipe = of_smaller_batch(recipe, len(rows))
    batch, rows = images.batch(rows).to(device), rows.to(device)
    with torch.random.fork_rng(devices=[]):
        method = build_method(recipe, images).to(device).train()
        plain = fresh_encoder(recipe).to(device)
    views = method.views(batch, recipe_draw(recipe, 0, rows, rows))
    return step_flop(method, views) / forward_flop(plain, plain_view(batch, recipe.tested_pixels))


def of_smaller_batch(recipe: Recipe, batch: int) -> Recipe:
    """The recipe with so many images per step; encoders that see a batch in parts still do."""
    in_parts = 0 < recipe.micro_batch < recipe.batch_size
    micro_batch = min(recipe.micro_batch, max(1, batch // 2)) if in_parts else recipe.micro_batch
    return replace(recipe, batch_size=batch, micro_batch=micro_batch)


def step_flop(method: Method, views: list[Tensor], *, precision: str = "float32") -> int:
    """Floating point operations of forward and backward; a multiplication and its addition are two."""
    with FlopCounterMode(display=False) as counter:
        with autocast(precision, views[0].device):
            loss = method(views)["loss"]
        loss.backward()
    return int(counter.get_total_flops())


@torch.no_grad()
def forward_flop(encoder: nn.Module, batch: Tensor) -> int:
    """Those of one forward."""
    with FlopCounterMode(display=False) as counter:
        encoder(batch)
    return int(counter.get_total_flops())


def time_steps(recipe: Recipe, images: Images, batch: int) -> Here:
    """Real steps on this machine, with so many of a batch's images, after one to warm up."""
    device = pick_device("auto")
    times: list[float] = []
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        stepper = Stepper(replace(of_smaller_batch(recipe, batch), init=""), images, device)  # steps take as long
        stepper.method.train()
        while len(times) < (2 if sum(times) > HERE_SECONDS else 3) or sum(times[1:]) < HERE_SECONDS:
            began = time.perf_counter()
            stepper.take(len(times) % stepper.total)
            times.append(time.perf_counter() - began)
    # The mean: what now and then disturbs a step disturbs those of the run too.
    seconds = statistics.mean(times[1:]) * recipe.batch_size / batch
    return Here(str(device), torch.get_num_threads(), len(times) - 1, seconds)


def timed_batch(recipe: Recipe, flop_per_image: float) -> int:
    """How many images of a batch a timed step has: all of them unless that takes too long."""
    return min(recipe.batch_size, max(2, int(HERE_FLOP / flop_per_image)))
