"""Moving averages of a trained module."""

import copy

import torch
from torch import Tensor, nn


def averaged_copy(trained: nn.Module) -> nn.Module:
    """A copy that no optimiser touches; move it with `average_into`."""
    return copy.deepcopy(trained).requires_grad_(False)


@torch.no_grad()
def average_into(averaged: nn.Module, *trained: nn.Module, keep: float) -> None:
    """``averaged ← keep · averaged + (1 - keep) · trained``, parameters only; the trained modules in order.

    Batch norm statistics are not averaged: the averaged module runs in training mode and keeps its own.
    """
    source: list[Tensor] = [parameter for module in trained for parameter in module.parameters()]
    torch._foreach_lerp_(list(averaged.parameters()), source, 1 - keep)
