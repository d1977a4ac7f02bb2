"""Heads: what methods put on top of an encoder while it trains."""

from itertools import pairwise
from typing import Literal

from torch import nn

from hardpair.errors import require_range


def build_head(inputs: int, *, hidden: int, outputs: int) -> nn.Module:
    """A projection head: nothing when ``outputs`` is 0, linear when ``hidden`` is 0, else Linear-BN-ReLU-Linear."""
    require_range("head_hidden", hidden, 0, 65_536)
    require_range("head_outputs", outputs, 0, 65_536)
    if outputs == 0:
        return nn.Identity()
    return mlp(inputs, hidden, outputs) if hidden else nn.Linear(inputs, outputs)


def mlp(
    *widths: int, batch_norm: bool = True, bias: bool = True, last: Literal["linear", "scaled", "normed"] = "linear"
) -> nn.Sequential:
    """Linear-BN-ReLU layers and a last linear one: mlp(512, 2048, 128) has one hidden layer of 2,048.

    ``batch_norm=False`` leaves it out; ``bias`` is the last layer's. The ``last`` layer's outputs may get a batch
    norm of their own, with a learned scale (SimCLR) or with nothing learned (SimSiam).
    """
    for width in widths[1:]:
        require_range("width of a head's layer", width, 1, 65_536)
    layers = [_layer(a, b, batch_norm) for a, b in pairwise(widths[:-1])]
    head = nn.Sequential(*layers, nn.Linear(widths[-2], widths[-1], bias=bias and last == "linear"))
    if last != "linear":
        norm = nn.BatchNorm1d(widths[-1], affine=last == "scaled")
        if last == "scaled":
            norm.register_parameter("bias", None)  # an offset would be the same for every image
        head.append(norm)
    return head


def _layer(inputs: int, outputs: int, batch_norm: bool) -> nn.Sequential:
    linear = nn.Linear(inputs, outputs, bias=not batch_norm)  # batch norm brings its own offset
    return nn.Sequential(linear, *([nn.BatchNorm1d(outputs)] if batch_norm else []), nn.ReLU(inplace=True))
