"""What methods carry from step to step: a moving average of the network, a queue of keys, a bank of vectors."""

import copy
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from hardpair import distributed
from hardpair.precision import to_float32

# Parameters of averaged and of trained modules: to find those of a small encoder takes longer than to average them.
_lists: WeakKeyDictionary[nn.Module, tuple[list[Tensor], list[Tensor]]] = WeakKeyDictionary()


def averaged_copy(trained: nn.Module) -> nn.Module:
    """A copy that no optimiser touches; move it with `average_into`."""
    return copy.deepcopy(trained).requires_grad_(False)


@torch.no_grad()
def average_into(averaged: nn.Module, *trained: nn.Module, keep: float) -> None:
    """``averaged ← keep · averaged + (1 - keep) · trained``, parameters only; the trained modules in order.

    Batch norm statistics are not averaged: the averaged module runs in training mode and keeps its own. From the first
    call on, the parameters must stay the same tensors, as an optimiser wants them to.
    """
    if averaged not in _lists:
        _lists[averaged] = list(averaged.parameters()), [p for module in trained for p in module.parameters()]
    torch._foreach_lerp_(*_lists[averaged], 1 - keep)


class Queue(nn.Module):
    """The latest ``size`` rows, first in, first out; random directions until it has filled."""

    keys: Tensor
    place: Tensor

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.register_buffer("keys", normalize(torch.randn(size, width), dim=1))  # (K, D)
        self.register_buffer("place", torch.zeros((), dtype=torch.long))  # where the next row goes

    @torch.no_grad()
    def push(self, rows: Tensor) -> None:
        """Put rows (N, D), and those of other processes, in the place of the oldest ones."""
        rows = distributed.gather(rows)[-len(self.keys) :]
        places = (self.place + torch.arange(len(rows), device=rows.device)) % len(self.keys)
        self.keys[places] = rows
        self.place.copy_((self.place + len(rows)) % len(self.keys))


class Bank(nn.Module):
    """One unit vector per training image, each a moving average of that image's outputs."""

    vectors: Tensor

    def __init__(self, images: int, width: int) -> None:
        super().__init__()
        self.register_buffer("vectors", normalize(torch.randn(images, width), dim=1))  # (images, D)

    @torch.no_grad()
    def update(self, rows: Tensor, outputs: Tensor, *, keep: float) -> None:
        """Move the vectors of these images (and other processes' ones) to their new outputs, and back to length one."""
        rows, outputs = distributed.gather(rows), to_float32(distributed.gather(outputs))
        moved = torch.lerp(normalize(outputs, dim=1), self.vectors[rows], keep)
        self.vectors[rows] = normalize(moved, dim=1)
