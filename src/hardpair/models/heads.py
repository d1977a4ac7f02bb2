"""Heads: what stands on top of an encoder while it trains, without labels or with them."""

import copy
from itertools import pairwise
from typing import Literal

from torch import Tensor, nn

from hardpair.errors import require_range
from hardpair.models.encoder import Encoder


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


class Classifier(nn.Module):
    """A copy of an encoder, optionally the first layer of its head, and a linear layer that starts at zero."""

    def __init__(self, encoder: Encoder, classes: int, head_layer: nn.Sequential | None = None) -> None:
        super().__init__()
        self.encoder = copy.deepcopy(encoder)
        self.head_layer = copy.deepcopy(head_layer) if head_layer is not None else nn.Identity()
        self.linear = nn.Linear(encoder.num_features if head_layer is None else widths(head_layer)[1], classes)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, images: Tensor) -> Tensor:
        """Logits (N, C) of normalised images."""
        logits: Tensor = self.linear(self.head_layer(self.encoder(images)))
        return logits


def widths(head_layer: nn.Sequential) -> tuple[int, int]:
    """Inputs and outputs of a head's layer."""
    linear = head_layer[0]
    assert isinstance(linear, nn.Linear)
    return linear.in_features, linear.out_features


def set_norm_momentum(network: nn.Module, momentum: float) -> None:
    """Set the momentum of every batch norm's running statistics."""
    for module in network.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.momentum = momentum
