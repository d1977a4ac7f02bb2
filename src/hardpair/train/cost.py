"""What a step costs: operations, memory, time. All is measured, so that no method declares its own."""

import statistics
import time
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from hardpair.data import Images
from hardpair.methods import Method
from hardpair.precision import fastest
from hardpair.recipes import Recipe
from hardpair.train.parallel import pick_device
from hardpair.train.step import Stepper, build_method, fresh_encoder, recipe_draw
from hardpair.views import plain_view

MOST = 256  # images counted at once
HERE_SECONDS, HERE_FLOP = 5.0, 5e11  # of all timed steps on this machine; of one of them, at most
META, CPU = torch.device("meta"), torch.device("cpu")


@dataclass(frozen=True)
class Rehearsal:
    """What a step of so many images takes."""

    method: Method  # on the meta device
    flop: int  # floating point operations of forward and backward
    encoder_flop: int  # of one forward of the plain encoder on as many images
    saved: int  # bytes of the views and of what autograd saves for the backward


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
    larger one; beyond that it is 256.
    """
    rows = torch.arange(min(recipe.batch_size, MOST, len(images)))
    batch, rows = images.batch(rows).to(device), rows.to(device)
    with torch.random.fork_rng(devices=[]):
        method = build_method(recipe, images).to(device).train()
        plain = fresh_encoder(recipe).to(device)
    views = method.views(batch, recipe_draw(recipe, 0, rows, rows))
    return _step_flop(method, views) / _forward_flop(plain, plain_view(batch))


def _step_flop(method: Method, views: list[Tensor]) -> int:
    """Floating point operations of forward and backward; a multiplication and its addition are two."""
    with FlopCounterMode(display=False) as counter:
        method(views)["loss"].backward()
    return int(counter.get_total_flops())


@torch.no_grad()
def _forward_flop(encoder: nn.Module, batch: Tensor) -> int:
    with FlopCounterMode(display=False) as counter:
        encoder(batch)
    return int(counter.get_total_flops())


def rehearse(recipe: Recipe, images: Images, count: int) -> Rehearsal:
    """Build the recipe's method for these images and take one step with ``count`` of them, without memory.

    Torch's meta device runs the method's own code on tensors that have shapes but no numbers.
    """
    with torch.random.fork_rng(devices=[]), META:
        method = build_method(recipe, images)
        plain = fresh_encoder(recipe)
        batch = torch.empty(count, 3, images.size, images.size)
    method = method.to(memory_format=torch.channels_last).train()
    few = [_few_views(method, recipe, images, n) for n in (2, 3)]
    views = [_grown(two, three, count) for two, three in zip(*few, strict=True)]
    # Tensors that share memory count once, those that live anyway not at all. On the meta device all addresses are 0;
    # storages are kept, so that none gets the identity of a freed one.
    saved: dict[int, torch.UntypedStorage] = {}

    def save(tensor: Tensor) -> Tensor:
        saved[_storage_id(tensor)] = tensor.untyped_storage()
        return tensor

    for view in views:
        save(view)
    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        flop = _step_flop(method, views)
    anyway = {_storage_id(tensor) for tensor in (*method.parameters(), *method.buffers())}
    kept = sum(storage.nbytes() for key, storage in saved.items() if key not in anyway)
    return Rehearsal(method, flop, _forward_flop(plain.eval(), batch), kept)


def _few_views(method: Method, recipe: Recipe, images: Images, count: int) -> list[Tensor]:
    """Real views of a few images. None can be made on the meta device: which to blur is looked up in random numbers."""
    rows = torch.zeros(count, dtype=torch.long)
    return method.views(images.batch(rows), recipe_draw(recipe, 0, torch.arange(count), rows))


def _grown(two: Tensor, three: Tensor, count: int) -> Tensor:
    """A side that differs between two images and three grows with their number."""
    shape = [a + (b - a) * (count - 2) for a, b in zip(two.shape, three.shape, strict=True)]
    last = two.ndim == 4 and two.is_contiguous(memory_format=torch.channels_last)
    layout = torch.channels_last if last else torch.contiguous_format
    return torch.empty(shape, dtype=two.dtype, device=META, memory_format=layout)


def _storage_id(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)  # noqa: SLF001


def time_steps(recipe: Recipe, images: Images, flop_per_image: float) -> Here:
    """Real steps on this machine, after one to warm up; of a smaller batch where one of the recipe's takes too long."""
    device, batch = pick_device("auto"), min(recipe.batch_size, max(2, int(HERE_FLOP / flop_per_image)))
    precision = fastest(device) if recipe.precision == "auto" else recipe.precision
    times: list[float] = []
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        stepper = Stepper(replace(recipe, batch_size=batch, precision=precision), images, device)
        stepper.method.train()
        while len(times) < 3 or sum(times[1:]) < HERE_SECONDS:
            began = time.perf_counter()
            stepper.take(len(times) % stepper.total)
            times.append(time.perf_counter() - began)
    seconds = statistics.median(times[1:]) * recipe.batch_size / batch
    return Here(str(device), torch.get_num_threads(), len(times) - 1, seconds)
