"""One training step with shapes and without numbers, so that the largest encoder is tried in seconds and in no memory.

Torch's meta device runs the method's own code, so work and memory are measured and no method declares its own.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from hardpair.data import Images
from hardpair.methods import Method
from hardpair.recipes import Recipe
from hardpair.train.cost import step_operations
from hardpair.train.step import build_method, fresh_encoder
from hardpair.views import Draw

META = torch.device("meta")


@dataclass(frozen=True)
class Rehearsal:
    """What a step of so many images takes."""

    method: Method  # on the meta device
    operations: int  # floating point, of forward and backward
    plain_operations: int  # of one forward of the plain encoder, on as many images
    kept: int  # bytes of the views and of what the forward keeps for the backward


def rehearse(recipe: Recipe, images: Images, count: int) -> Rehearsal:
    """Build the recipe's method for these images and take one step with ``count`` of them, all without memory."""
    with torch.random.fork_rng(devices=[]), META:
        method = build_method(recipe, images)
        plain = fresh_encoder(recipe)
        batch = torch.empty(count, 3, images.size, images.size)
    method = method.to(memory_format=torch.channels_last).train()
    views = _views(method, images, count, recipe.view_pixels)
    kept = Kept([*method.parameters(), *method.buffers()])
    for view in views:
        kept.pack(view)
    with torch.autograd.graph.saved_tensors_hooks(kept.pack, _as_it_is):
        operations = step_operations(method, views)
    with FlopCounterMode(display=False) as forward, torch.no_grad():
        plain.eval()(batch)
    return Rehearsal(method, operations, int(forward.get_total_flops()), kept.bytes)


class Kept:
    """What autograd keeps for the backward: tensors that share memory count once, those that live anyway not at all."""

    def __init__(self, lives_anyway: Iterable[Tensor]) -> None:
        self._anyway = {_place(tensor) for tensor in lives_anyway}
        self._storages: dict[int, torch.UntypedStorage] = {}

    def pack(self, tensor: Tensor) -> Tensor:
        """Count the memory of a tensor; a hook of autograd."""
        if (place := _place(tensor)) not in self._anyway:
            self._storages[place] = tensor.untyped_storage()  # held, so that its place is not given to another
        return tensor

    @property
    def bytes(self) -> int:
        """Of all of it."""
        return sum(storage.nbytes() for storage in self._storages.values())


def _as_it_is(tensor: Tensor) -> Tensor:
    return tensor


def _place(tensor: Tensor) -> int:
    """What tells one memory from another, also on the meta device, where all addresses are 0."""
    return int(tensor.untyped_storage()._cdata)  # noqa: SLF001


def _views(method: Method, images: Images, count: int, size: int) -> list[Tensor]:
    """Views of ``count`` images on the meta device, shaped by those of two and of three real ones.

    They cannot be made there: which images are blurred, say, is looked up in the numbers drawn.
    """
    return [
        _grown(two, three, count) for two, three in zip(*(_few(method, images, n, size) for n in (2, 3)), strict=True)
    ]


def _few(method: Method, images: Images, count: int, size: int) -> list[Tensor]:
    rows = torch.zeros(count, dtype=torch.long)
    return method.views(images.batch(rows), Draw(0, 0, torch.arange(count), rows=rows, size=size))


def _grown(two: Tensor, three: Tensor, count: int) -> Tensor:
    """A side that differs between two images and three grows with their number."""
    shape = [a + (b - a) * (count - 2) for a, b in zip(two.shape, three.shape, strict=True)]
    last = two.ndim == 4 and two.is_contiguous(memory_format=torch.channels_last)
    layout = torch.channels_last if last else torch.contiguous_format
    return torch.empty(shape, dtype=two.dtype, device=META, memory_format=layout)
