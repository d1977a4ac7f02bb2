"""Numbers that views need as tensors, made once: making one at every step would keep a GPU waiting."""

import functools

import torch
from torch import Tensor


@functools.cache
def constant(values: float | tuple[float, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    """A tensor of these values."""
    return torch.tensor(values, device=device, dtype=dtype)
