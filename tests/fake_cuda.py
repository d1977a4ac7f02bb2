"""CUDA tensors without a GPU: shapes, types and devices, but no numbers. A mix of devices raises, as on a real one.

torch's own FakeTensorMode does it. There is no backward: that needs a driver, also to be forgotten, so nothing here
keeps a graph.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from hardpair.data import Images
from hardpair.views.batched import constant

CUDA = torch.device("cuda", 0)
NONZERO, INDEX = torch.ops.aten.nonzero.default, torch.ops.aten.index.Tensor
NUMBER = torch.ops.aten._local_scalar_dense.default


class SomeNumbers(TorchDispatchMode):
    """What a fake tensor cannot answer: every second element is not zero, and every number asked for is a one."""

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is NONZERO:
            return args[0].new_empty((max(1, args[0].numel() // 2), args[0].ndim), dtype=torch.int64)
        if func is INDEX:  # by a mask, which is an index by what is not zero in it
            places = [place for p in args[1] for place in (self._where(p) if p is not None else [p])]
            return func(args[0], places)
        if func is NUMBER:
            return 1.0 if args[0].is_floating_point() else args[0].dtype == torch.bool or 1
        return func(*args, **(kwargs or {}))

    @staticmethod
    def _where(places: Tensor) -> list[Tensor]:
        if places.dtype != torch.bool:
            return [places]
        count = max(1, places.numel() // 2)
        return [places.new_empty(count, dtype=torch.int64) for _ in range(places.ndim)]


@contextmanager
def fake_cuda() -> Iterator[torch.device]:
    """Every tensor made within is fake, and those from outside become so when they are used."""
    constant.cache_clear()
    try:
        with (
            mock.patch.object(torch, "bincount", _even_counts),
            mock.patch.object(Images, "_pick", _some_pixels),
            torch.no_grad(),
            FakeTensorMode(allow_non_fake_inputs=True),
            SomeNumbers(),
        ):
            yield CUDA
    finally:
        constant.cache_clear()  # fake ones are of no use to anybody else


def _even_counts(values: Tensor, minlength: int) -> Any:
    """As if every value were there as often; only to be made a list of."""
    share, rest = divmod(len(values), minlength)
    return SimpleNamespace(tolist=lambda: [share] * (minlength - 1) + [share + rest])


def _some_pixels(images: Images, rows: Tensor) -> Tensor:
    """numpy, which picks images out of memory, knows no fake tensors."""
    return torch.empty(len(rows), *images.block.shape[1:], dtype=torch.uint8)


def on_cuda(module: nn.Module) -> nn.Module:
    """Parameters and buffers go to the GPU, nothing else; `Module.to` cannot do it with fake tensors, even again."""
    for part in module.modules():
        for name, parameter in part.named_parameters(recurse=False):
            moved = nn.Parameter(torch.empty_like(parameter, device=CUDA), requires_grad=parameter.requires_grad)
            part.register_parameter(name, moved)
        for name, buffer in part.named_buffers(recurse=False):
            setattr(part, name, torch.empty_like(buffer, device=CUDA))
    object.__setattr__(module, "to", lambda *_, **__: module)
    return module


def all_on_cuda(*tensors: Tensor) -> bool:
    return all(tensor.device == CUDA for tensor in tensors)
