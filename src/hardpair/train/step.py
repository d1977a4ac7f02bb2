"""One step of training: rows to views to loss to new weights, on one rank or several."""

import hashlib
import math
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from hardpair import distributed
from hardpair.data import Images, epoch_order
from hardpair.errors import UserError
from hardpair.methods import METHODS, Method
from hardpair.models import (
    DEPTHS,
    Encoder,
    build_encoder,
    load_weights,
    read_weights,
    synchronise_norms,
)
from hardpair.precision import autocast
from hardpair.recipes import SUPERVISED, Recipe
from hardpair.train.labelled import Supervised
from hardpair.train.optimisers import build_optimiser, learning_rate, set_learning_rate
from hardpair.train.parallel import averaging_gradients, cut
from hardpair.views import Draw

STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def fresh_encoder(recipe: Recipe, **normalisation: Any) -> Encoder:
    """The recipe's encoder, as random as torch is."""
    fields: dict[str, Any] = {"width": recipe.width, "sk": recipe.sk, "small_images": recipe.small_images}
    if recipe.encoder not in DEPTHS:
        fields |= {"image_size": recipe.view_pixels}
    fields |= {"zero_init": recipe.zero_init}
    return build_encoder(recipe.encoder, **fields, drop_path=recipe.drop_path, **normalisation)


def first_encoder(recipe: Recipe) -> Encoder:
    """The encoder that training begins with: random, or with the weights that the recipe names.

    On torch's meta device, where only shapes count, no weights are read.
    """
    if not recipe.init or torch.get_default_device().type == "meta":
        return fresh_encoder(recipe)
    weights = read_weights(recipe.init)
    encoder = fresh_encoder(recipe, **{name: weights.shape[name] for name in ("mean", "std") if name in weights.shape})
    load_weights(encoder, weights, may_miss=[name.strip() for name in recipe.init_may_miss.split(",") if name.strip()])
    return encoder


def build_method(recipe: Recipe, images: Images) -> Method:
    """The recipe's method on its first encoder, ready for these images; the seed and ``init`` decide the weights."""
    torch.manual_seed(recipe.seed)
    encoder = first_encoder(recipe)
    if recipe.method == SUPERVISED:
        return _in_micro_batches(Supervised(encoder, images), recipe)
    method = METHODS[recipe.method](encoder, **recipe.settings)
    if encoder.origin and method.encoder is not encoder:
        raise UserError(f"init: {recipe.method} builds an encoder of its own, which has other weights; leave it out")
    method.prepare(images.pixels)
    return _in_micro_batches(method, recipe)


def _in_micro_batches(method: Method, recipe: Recipe) -> Method:
    """Trained and averaged encoders alike."""
    for module in method.modules():
        if isinstance(module, Encoder):
            module.micro_batch = recipe.micro_batch
    return method


def recipe_draw(recipe: Recipe, step: int, positions: Tensor, rows: Tensor | None = None) -> Draw:
    """How a recipe's views are drawn at these positions of its batch: by its seed, and as large as it says."""
    return Draw(recipe.seed, step, positions, rows=rows, size=recipe.view_pixels)


def check_view_sizes(method: Method, views: list[Tensor]) -> None:
    """Refuse views that the encoder cannot take, before any work."""
    sizes = {view.shape[-1] for view in views if view.ndim >= 4}  # the others are rows and orders
    note = " (a view has image_size × view_size pixels, and a small one small_size times that)"
    method.encoder.require_sizes(sizes, note=note)


class Fetcher:
    """The images of one step after the other; a thread fetches the next batch while a step is computed."""

    def __init__(self, images: Images, steps: int, device: torch.device) -> None:
        self.images, self.steps, self.device = images, steps, device
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="fetch")
        self.ahead: tuple[int, Tensor, Future[Tensor]] | None = None

    def batch(self, step: int, rows_of: Callable[[int], Tensor]) -> tuple[Tensor, Tensor]:
        """Which images a step sees, and their pixels on the device."""
        if self.ahead is None or self.ahead[0] != step:
            self.ahead = self._begin(step, rows_of)
        _, rows, pixels = self.ahead
        fetched = pixels.result()
        self.ahead = self._begin(step + 1, rows_of) if step + 1 < self.steps else None
        return rows, fetched.to(self.device, non_blocking=True)

    def _begin(self, step: int, rows_of: Callable[[int], Tensor]) -> tuple[int, Tensor, Future[Tensor]]:
        rows = rows_of(step)
        return step, rows, self.thread.submit(self._fetch, rows)

    def _fetch(self, rows: Tensor) -> Tensor:
        pixels = self.images.batch(rows)
        return pixels.pin_memory() if self.device.type == "cuda" else pixels  # or no copy would be in the background


@dataclass(frozen=True)
class Done:
    """What came of a step."""

    outputs: dict[str, Tensor]
    rows: Tensor  # which images this rank saw
    waited: float  # seconds for the images
    sound: bool  # else something was not finite on some rank, and nothing has changed
    stop: bool  # some rank was asked to stop


class Stepper:
    """A method, its optimiser and the images they learn from."""

    def __init__(self, recipe: Recipe, images: Images, device: torch.device, *, shard: bool = False) -> None:
        self.recipe, self.images, self.device = recipe, images, device
        self.steps_per_epoch = len(images) // recipe.batch_size
        self.total = recipe.epochs * self.steps_per_epoch
        self.method = build_method(recipe, images)
        few = torch.arange(2)
        check_view_sizes(self.method, self.method.views(images.batch(few), recipe_draw(recipe, 0, few, few)))
        self.forward: nn.Module = self.method
        if distributed.world_size() > 1 and self.method.whole_batch_norm:
            synchronise_norms(self.method, device)
        self.method.to(device)
        self.sharded = shard
        if shard:  # shards know no memory layout; and the optimiser is to see shards
            self.forward = cut(self.method, device.type)
        else:
            self.method.to(memory_format=torch.channels_last)
        self.optimiser = build_optimiser(self.method, recipe, self.method.constant_rate())
        self.trained = [p for p in self.method.parameters() if p.requires_grad]
        self.positions = distributed.local_rows(torch.arange(recipe.batch_size, device=device))
        self.statistics = _by_type([b for name, b in self.method.named_buffers() if name.endswith(STATISTICS)])
        self.statistics_before = [[torch.empty_like(b) for b in group] for group in self.statistics]
        self.epoch = -1
        self.fetcher = Fetcher(images, self.total, device)
        if distributed.world_size() > 1 and not shard:
            self.forward = averaging_gradients(self.method, device)

    def take(self, step: int, asked_to_stop: Callable[[], bool] = lambda: False) -> Done:
        """Do a step; all ranks learn whether any of them was asked to stop."""
        waiting = time.perf_counter()
        rows, images = self.fetcher.batch(step, self.rows)
        waited = time.perf_counter() - waiting
        set_learning_rate(self.optimiser, learning_rate(self.recipe, step, self.steps_per_epoch))
        _copy(self.statistics, self.statistics_before)
        views = self.method.views(images, self.draw(step, rows))
        self.seed_layers(step)
        del images  # of a large batch they are many, and so are the views
        with autocast(self.recipe.precision, self.device):
            outputs = self.forward(views)
        if missing := {"loss", "features"} - outputs.keys():
            raise UserError(f"{self.recipe.method}: forward must return {' and '.join(sorted(missing))} (see Method)")
        outputs["loss"].backward()
        del views
        norm = nn.utils.get_total_norm([p.grad for p in self.trained if p.grad is not None])
        outputs["gradient_norm"] = distributed.full_tensor(norm)
        loss, length = torch.stack([outputs["loss"].detach(), outputs["gradient_norm"]]).tolist()  # the one wait
        broken, stop = distributed.any_rank(not math.isfinite(loss + length), asked_to_stop(), device=self.device)
        if broken:
            _copy(self.statistics_before, self.statistics)
        else:
            if 0 < self.recipe.clip < length:
                nn.utils.clip_grads_with_norm_(self.trained, self.recipe.clip, norm)
            self.optimiser.step()
            self.method.after_step((step + 1) / self.total)
            self._agree_on_statistics()
        self.optimiser.zero_grad(set_to_none=True)
        return Done(outputs, rows, waited, sound=not broken, stop=stop)

    def rows(self, step: int) -> Tensor:
        """Which images this rank sees in a step: its part of a slice of an order that (seed, epoch) alone decide."""
        epoch, index = divmod(step, self.steps_per_epoch)
        if epoch != self.epoch:
            self.epoch = epoch
            self.order = epoch_order(len(self.images), seed=self.recipe.seed, epoch=epoch)
        return distributed.local_rows(self.order[index * self.recipe.batch_size :][: self.recipe.batch_size])

    def seed_layers(self, step: int) -> None:
        """Seed torch by (seed, step, rank): stochastic depth and dropout of a resumed run are those of the run."""
        words = f"{self.recipe.seed} {step} {distributed.rank()}".encode()
        seed = int.from_bytes(hashlib.sha256(words).digest()[:4])  # torch uses no more than these bits of a seed
        # All devices' generators, as torch.manual_seed has it, would take longer than many a layer.
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def draw(self, step: int, rows: Tensor) -> Draw:
        """How the views of these rows are drawn in a step."""
        return recipe_draw(self.recipe, step, self.positions, rows.to(self.device, non_blocking=True))

    def _agree_on_statistics(self) -> None:
        """Batch norms that see only their rank's part of the batch would drift apart: all take the mean.

        At every step, though only saving reads them: a resumed run, which begins with the mean, would otherwise not be
        bit-exact. They are sent all at once.
        """
        if distributed.world_size() == 1 or self.method.whole_batch_norm:
            return
        for group in self.statistics:
            if group[0].is_floating_point():  # the others count batches
                means = distributed.mean(torch.cat(group)).split([len(b) for b in group])
                torch._foreach_copy_(group, list(means))


def _by_type(tensors: list[Tensor]) -> list[list[Tensor]]:
    """Groups of one type of numbers each: tensors of several types a GPU would copy one after the other."""
    return [[t for t in tensors if t.dtype == dtype] for dtype in dict.fromkeys(t.dtype for t in tensors)]


def _copy(source: list[list[Tensor]], target: list[list[Tensor]]) -> None:
    for own, other in zip(target, source, strict=True):
        torch._foreach_copy_(own, other)
