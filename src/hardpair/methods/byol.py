"""BYOL: predict, from one view, what a moving average of the network makes of the other. No negatives.

The online network is trained by gradient; the target is its moving average. A predictor on the online side only is
what keeps the two from agreeing on a constant.

Paper:   Grill et al., "Bootstrap Your Own Latent", 2020.
Loss:    squared distance of unit vectors, 2 - 2 cos, of prediction and target, both ways round, summed.
Differs: the target starts as a copy rather than from other random weights; brightness multiplies.
"""

import math

import torch
from torch import Tensor, nn

from hardpair.errors import require_range
from hardpair.losses import cosine_regression
from hardpair.methods.method import Method
from hardpair.methods.small_views import SmallViews, mean, others
from hardpair.models import Encoder, average_into, averaged_copy, mlp
from hardpair.views import Draw, PolicyName, two_views


class BYOL(Method):
    """BYOL. The defaults are the paper's for ImageNet, 1,000 epochs.

    Args:
        encoder: the online encoder; the target starts as its copy.
        head_hidden: width of the hidden layers of projector and predictor.
        head_outputs: width of their outputs.
        first_view: augmentation of one view.
        second_view: augmentation of the other.
        momentum: share of the old target kept at a step, at first; it rises to 1 along a cosine.
        small_views: further, smaller views; each must agree with both large ones.
        small_size: side of a small view as a share of that of the others.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        head_hidden: int = 4096,
        head_outputs: int = 256,
        first_view: PolicyName = "byol_first",
        second_view: PolicyName = "byol_second",
        momentum: float = 0.996,
        small_views: int = 0,
        small_size: float = 2 / 3,
    ) -> None:
        super().__init__()
        require_range("momentum", momentum, 0, 1)
        self.encoder = encoder
        self.projector = mlp(encoder.num_features, head_hidden, head_outputs, bias=False)
        self.predictor = mlp(head_outputs, head_hidden, head_outputs, bias=False)
        self.target = averaged_copy(nn.Sequential(self.encoder, self.projector))
        self.first_view, self.second_view, self.momentum = first_view, second_view, momentum
        self.small = SmallViews(small_views, small_size)

    def views(self, images: Tensor, draw: Draw) -> list[Tensor]:
        """Two views, each by its own policy, and small ones by the first."""
        pair = two_views(images, self.first_view, self.second_view, draw)
        return [*pair, *self.small.of(images, self.first_view, draw, self.encoder, pair[0])]

    def forward(self, views: list[Tensor]) -> dict[str, Tensor]:
        """Each view's prediction of the targets of the others; small views have none."""
        with torch.no_grad():  # first, so that its memory is free again before the online network's fills
            targets = [self.target(view) for view in views[:2]]  # (N, D) each
        features = [self.encoder(view) for view in views]  # (N, F) each
        predictions = [self._predict(rows) for rows in features]
        ways = [
            mean([cosine_regression(prediction, target) for prediction in others(predictions, place)])
            for place, target in enumerate(targets)
        ]
        return {"loss": sum(ways[1:], ways[0]), "features": features[0].detach()}

    def _predict(self, features: Tensor) -> Tensor:
        prediction: Tensor = self.predictor(self.projector(features))
        return prediction

    def after_step(self, progress: float) -> None:
        """The target follows the online network, more and more slowly."""
        keep = 1 - (1 - self.momentum) * 0.5 * (1 + math.cos(math.pi * progress))
        average_into(self.target, self.encoder, self.projector, keep=keep)
