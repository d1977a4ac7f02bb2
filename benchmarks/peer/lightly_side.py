"""Four methods out of lightly's parts, put together and set up as in lightly's own benchmark on CIFAR-10.

Temperatures, momenta, memory bank, the order of a step and the way losses are averaged are lightly's; the encoder and
the widths of the heads are those of our demo recipes. Its benchmark also splits batch norm in eight for MoCo, by an
encoder of its own; with the shared encoder that falls away, and with it the reason to shuffle keys.
"""

import copy
from collections.abc import Callable
from typing import Any

import torch
from lightly.loss import NegativeCosineSimilarity, NTXentLoss
from lightly.models.modules.heads import (
    BYOLPredictionHead,
    BYOLProjectionHead,
    MoCoProjectionHead,
    ProjectionHead,
    SimCLRProjectionHead,
    SimSiamPredictionHead,
)
from lightly.models.utils import deactivate_requires_grad, update_momentum
from lightly.transforms import BYOLTransform, MoCoV2Transform, SimCLRTransform, SimSiamTransform
from lightly.transforms.byol_transform import BYOLView1Transform, BYOLView2Transform
from torch import Tensor, nn

from hardpair.models import Encoder

HIDDEN, OUTPUTS = 512, 128
MOMENTUM = 0.99
BANK = 4096
SMALL: dict[str, Any] = {"input_size": 32, "gaussian_blur": 0.0}  # pictures too small to blur


class SimCLR(nn.Module):
    """NT-Xent at lightly's temperature."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = SimCLRProjectionHead(encoder.num_features, HIDDEN, OUTPUTS)
        self.criterion = NTXentLoss(temperature=0.5)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """The loss of two views."""
        loss: Tensor = self.criterion(self.head(self.encoder(first)), self.head(self.encoder(second)))
        return loss


class MoCo(nn.Module):
    """A memory bank of 4,096 keys and the symmetric loss."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = MoCoProjectionHead(encoder.num_features, HIDDEN, OUTPUTS)
        self.key_encoder, self.key_head = copy.deepcopy(self.encoder), copy.deepcopy(self.head)
        deactivate_requires_grad(self.key_encoder)
        deactivate_requires_grad(self.key_head)
        self.criterion = NTXentLoss(temperature=0.1, memory_bank_size=(BANK, OUTPUTS))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """Move the key encoder, then the mean loss of both ways round."""
        update_momentum(self.encoder, self.key_encoder, MOMENTUM)
        update_momentum(self.head, self.key_head, MOMENTUM)
        return 0.5 * (self._one_way(first, second) + self._one_way(second, first))

    def _one_way(self, query: Tensor, key: Tensor) -> Tensor:
        with torch.no_grad():
            keys = self.key_head(self.key_encoder(key))
        loss: Tensor = self.criterion(self.head(self.encoder(query)), keys)
        return loss


class BYOL(nn.Module):
    """A target of constant momentum."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.projector = BYOLProjectionHead(encoder.num_features, HIDDEN, OUTPUTS)
        self.predictor = BYOLPredictionHead(OUTPUTS, HIDDEN, OUTPUTS)
        self.target_encoder, self.target_projector = copy.deepcopy(self.encoder), copy.deepcopy(self.projector)
        deactivate_requires_grad(self.target_encoder)
        deactivate_requires_grad(self.target_projector)
        self.criterion = NegativeCosineSimilarity()

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """Move the target, then the mean loss of both ways round."""
        update_momentum(self.encoder, self.target_encoder, MOMENTUM)
        update_momentum(self.projector, self.target_projector, MOMENTUM)
        return 0.5 * (self._one_way(first, second) + self._one_way(second, first))

    def _one_way(self, view: Tensor, other: Tensor) -> Tensor:
        with torch.no_grad():
            target = self.target_projector(self.target_encoder(other))
        loss: Tensor = self.criterion(self.predictor(self.projector(self.encoder(view))), target)
        return loss


class SimSiam(nn.Module):
    """The projector of two layers that lightly, like the paper, takes for CIFAR-10."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.projector = ProjectionHead(
            [
                (encoder.num_features, HIDDEN, nn.BatchNorm1d(HIDDEN), nn.ReLU()),
                (HIDDEN, HIDDEN, nn.BatchNorm1d(HIDDEN), None),
            ]
        )
        self.predictor = SimSiamPredictionHead(HIDDEN, HIDDEN // 4, HIDDEN)
        self.criterion = NegativeCosineSimilarity()

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """The mean loss of both ways round."""
        z1, z2 = self.projector(self.encoder(first)), self.projector(self.encoder(second))
        p1, p2 = self.predictor(z1), self.predictor(z2)
        loss: Tensor = 0.5 * (self.criterion(p1, z2.detach()) + self.criterion(p2, z1.detach()))
        return loss


LIGHTLY: dict[str, Callable[[Encoder], nn.Module]] = {"simclr": SimCLR, "moco": MoCo, "byol": BYOL, "simsiam": SimSiam}

# The jitter of all is .4 of brightness and contrast and .1 of hue; SimCLR's says so as half of .8 and .2.
TRANSFORMS: dict[str, Callable[[], Callable[..., Any]]] = {
    "simclr": lambda: SimCLRTransform(cj_strength=0.5, **SMALL),
    "moco": lambda: MoCoV2Transform(**SMALL),
    "byol": lambda: BYOLTransform(BYOLView1Transform(**SMALL), BYOLView2Transform(**SMALL)),
    "simsiam": lambda: SimSiamTransform(**SMALL),
}


def learning_rate(method: str, batch: int) -> float:
    """lightly's for SGD: scaled by the batch, except for SimSiam, which it finds more stable without."""
    return 0.06 if method == "simsiam" else 0.06 * batch / 128
