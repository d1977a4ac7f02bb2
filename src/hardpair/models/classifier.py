"""An encoder with a classifier on top, for training with labels."""

import copy

from torch import Tensor, nn

from hardpair.models.encoder import Encoder


class Classifier(nn.Module):
    """A copy of an encoder, perhaps the first layer of its head, and a linear layer that starts at zero."""

    def __init__(self, encoder: Encoder, classes: int, head_layer: nn.Sequential | None = None) -> None:
        super().__init__()
        self.encoder = copy.deepcopy(encoder)
        self.head_layer = copy.deepcopy(head_layer) if head_layer is not None else nn.Identity()
        self.linear = nn.Linear(encoder.num_features if head_layer is None else widths(head_layer)[1], classes)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, images: Tensor) -> Tensor:
        """Class scores (N, C) of normalised images."""
        scores: Tensor = self.linear(self.head_layer(self.encoder(images)))
        return scores


def widths(head_layer: nn.Sequential) -> tuple[int, int]:
    """Inputs and outputs of a head's layer."""
    linear = head_layer[0]
    assert isinstance(linear, nn.Linear)
    return linear.in_features, linear.out_features


def set_norm_momentum(network: nn.Module, momentum: float) -> None:
    """How fast batch norm's running statistics follow."""
    for module in network.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.momentum = momentum
