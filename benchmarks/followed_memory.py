"""Peak memory of views and of whole steps at sizes that no machine here holds, every storage followed to its end.

    python benchmarks/followed_memory.py    # two minutes

Goal: the peak of a step in micro-batches, gradients of activations included, is within 5 % of what `hardpair plan`
counts. Steps are taken by fake tensors, which have no memory; views, as a GPU makes them, by real ones of few images,
since they look numbers up.
"""

import dataclasses
import weakref
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from hardpair.data import outline_images
from hardpair.precision import autocast
from hardpair.recipes import Recipe, find_recipe
from hardpair.train.rehearsal import rehearse
from hardpair.train.step import build_method
from hardpair.views import POLICIES, Draw, augmented_view, parameters, view

CPU = torch.device("cpu")
STEPS = [  # images, and how many encoders see at a time
    ("imagenet/simclr", 64, 16, "float32"),
    ("imagenet/simclr", 64, 16, "bfloat16"),
    ("imagenet/byol", 64, 16, "float32"),
    ("imagenet/simclrv2-50-2x-sk", 16, 4, "float32"),
    ("imagenet/simclrv2-152-3x-sk", 8, 4, "float32"),
]
IMAGES, LARGE = 16, 4096


class Followed(TorchDispatchMode):
    """Bytes of all tensors that are made within, now and at most."""

    def __init__(self, before: nn.Module | None = None) -> None:
        super().__init__()
        there = [*before.parameters(), *before.buffers()] if before is not None else []
        self.sizes = {t.untyped_storage()._cdata: 0 for t in there}
        self.now = self.peak = 0

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Do it, and note the new storages among the results."""
        results = func(*args, **(kwargs or {}))
        for tensor in (leaf for leaf in tree_leaves(results) if isinstance(leaf, Tensor)):
            storage = tensor.untyped_storage()
            if storage._cdata not in self.sizes:
                self.sizes[storage._cdata] = storage.nbytes()
                self.now += storage.nbytes()
                self.peak = max(self.peak, self.now)
                weakref.finalize(storage, self._freed, storage._cdata)
        return results

    def _freed(self, key: int) -> None:
        self.now -= self.sizes.pop(key)


def follow_views(size: int) -> None:
    """Two views of 224 px by SimCLR's policy."""
    images = torch.randint(256, (IMAGES, 3, size, size), dtype=torch.uint8)
    draw = Draw(0, 0, torch.arange(IMAGES), size=224).within("first", "second")
    augmented_view(images, POLICIES["simclr"], draw)  # constants stay
    with Followed() as memory:
        views = augmented_view(images, POLICIES["simclr"], draw)
    each, kept = memory.peak / IMAGES / 1e9, views.nbytes / IMAGES / 1e9
    print(
        f"two views of {LARGE:,} images of {size} px: {LARGE * kept:.1f} GB; made at once {LARGE * each:.1f} GB, "
        f"{view.TOGETHER} at a time {LARGE * kept + view.TOGETHER * each:.1f} GB"
    )


def follow_step(recipe: Recipe) -> None:
    """Forward and backward beside the plan; weights and the optimiser's state add the same to both."""
    images = outline_images(recipe.data, size=recipe.image_size).images
    plan = rehearse(recipe, images, recipe.batch_size)
    with torch.device("meta"):
        method = build_method(recipe, images).to(memory_format=torch.channels_last).train()
    with FakeTensorMode(allow_non_fake_inputs=True):
        method = method.to_empty(device=CPU)
        pixels = (recipe.batch_size, 3, recipe.view_pixels, recipe.view_pixels)
        with Followed(method) as memory:
            views = [torch.empty(pixels, memory_format=torch.channels_last) for _ in range(2)]
            with autocast(recipe.precision, CPU):
                loss = method(views)["loss"]
            loss.backward()
    gradients = sum(p.nbytes for p in method.parameters() if p.requires_grad)
    always = gradients + sum(p.nbytes for p in method.parameters())  # LARS keeps a number for each that is trained
    peak, planned = memory.peak + always, plan.kept + plan.part + gradients + always
    print(
        f"{recipe.name}, batch {recipe.batch_size}, {recipe.micro_batch} at a time, {recipe.precision}: "
        f"peak {peak / 1e9:.2f} GB, planned {planned / 1e9:.2f}; peak ÷ plan {peak / planned:.3f}",
        flush=True,
    )


def main() -> None:
    """A line each."""
    parameters.HAS_NUMBA = False  # views as operations on batches, as on a GPU
    for size in (224, 320):
        follow_views(size)
    for name, batch, micro_batch, precision in STEPS:
        changes = {"batch_size": batch, "micro_batch": micro_batch, "precision": precision}
        follow_step(dataclasses.replace(find_recipe(name), **changes))


if __name__ == "__main__":
    main()
