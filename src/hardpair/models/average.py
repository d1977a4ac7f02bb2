"""Moving averages of a trained module."""

import copy
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

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
