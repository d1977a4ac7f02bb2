"""Batch norm over the whole of a batch that several processes share."""

from typing import Any

import torch
from torch import Tensor, nn

from hardpair import distributed
from hardpair.precision import to_float32


def synchronise_norms(module: nn.Module, device: torch.device) -> nn.Module:
    """Let every batch norm in the module see the batch of all processes; names of tensors stay as they are."""
    if device.type == "cuda":
        from timm.layers.norm_act import convert_sync_batchnorm  # here, since timm takes two seconds to import

        converted: nn.Module = convert_sync_batchnorm(module)
        return converted
    return _convert(module)


def _convert(module: nn.Module) -> nn.Module:
    if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
        return SynchronisedNorm(module)
    for name, child in module.named_children():
        setattr(module, name, _convert(child))
    return module


class SynchronisedNorm(nn.Module):
    """torch's SyncBatchNorm works on GPUs only; this one works anywhere, and takes over a batch norm's tensors."""

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(self, norm: nn.BatchNorm1d | nn.BatchNorm2d) -> None:
        from timm.layers.norm_act import BatchNormAct2d  # here, since timm takes two seconds to import

        super().__init__()
        assert norm.momentum is not None
        self.eps, self.momentum = norm.eps, norm.momentum
        self.weight, self.bias = norm.weight, norm.bias
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            self.register_buffer(name, getattr(norm, name))
        follows: Any = norm if isinstance(norm, BatchNormAct2d) else None
        self.drop: nn.Module = follows.drop if follows else nn.Identity()
        self.act: nn.Module = follows.act if follows else nn.Identity()
        self.training = norm.training

    def forward(self, x: Tensor) -> Tensor:
        """(N, C) or (N, C, H, W) → the same."""
        mean, variance = self._statistics(x) if self.training else (self.running_mean, self.running_var)
        shape = (1, -1, *[1] * (x.ndim - 2))
        scale = torch.rsqrt(variance + self.eps) * (1 if self.weight is None else self.weight)
        shift = (0 if self.bias is None else self.bias) - mean * scale
        normed: Tensor = self.act(self.drop(torch.addcmul(shift.view(shape), x, scale.view(shape))))
        return normed.to(x.dtype)

    def _statistics(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance over all processes, in float32 and with gradient; the running ones follow."""
        x = to_float32(x)
        axes = [axis for axis in range(x.ndim) if axis != 1]
        count = distributed.world_size() * x.numel() // x.shape[1]
        mean = distributed.all_reduce_with_gradient(x.sum(axes)) / count
        shape = (1, -1, *[1] * (x.ndim - 2))
        squares = (x - mean.view(shape)).square().sum(axes)  # about the mean: nothing cancels
        variance = distributed.all_reduce_with_gradient(squares) / count
        with torch.no_grad():
            self.num_batches_tracked += 1
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance * (count / max(count - 1, 1)), self.momentum)
        return mean, variance
