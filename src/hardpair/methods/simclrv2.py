"""SimCLRv2: SimCLR with a deeper head, whose first layer is worth keeping for fine-tuning.

The part of the head next to the encoder still holds what labels need, so with few labels one fine-tunes from
its first layer on rather than from the encoder's output; a run keeps that layer beside the encoder.

Paper:   Chen et al., "Big Self-Supervised Models are Strong Semi-Supervised Learners", 2020.
Loss:    NT-Xent, as SimCLR.
Differs: as SimCLR; without the optional memory of keys (about a point in the paper, not in the released code).
"""

from torch import Tensor, nn

from hardpair.errors import require_range
from hardpair.losses import nt_xent
from hardpair.methods.method import Method
from hardpair.methods.small_views import SmallViews, mean, pairs_with_large
from hardpair.models import Encoder, mlp
from hardpair.views import Draw, PolicyName, two_views


class SimCLRv2(Method):
    """SimCLRv2's pretraining. The defaults are the paper's for ImageNet.

    Args:
        encoder: the encoder to train.
        head_hidden: width of the head's two hidden layers; 0 takes the encoder's.
        head_outputs: width of the head's output.
        view: augmentation of both views.
        temperature: divides the similarities.
        small_views: further, smaller views; each must agree with both large ones.
        small_size: side of a small view as a share of that of the others.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        head_hidden: int = 0,
        head_outputs: int = 128,
        view: PolicyName = "simclr",
        temperature: float = 0.1,
        small_views: int = 0,
        small_size: float = 2 / 3,
    ) -> None:
        super().__init__()
        require_range("temperature", temperature, 1e-3, 100)
        hidden = head_hidden or encoder.num_features
        self.encoder = encoder
        self.head = mlp(encoder.num_features, hidden, hidden, head_outputs, last="scaled")
        self.view, self.temperature = view, temperature
        self.small = SmallViews(small_views, small_size)

    def views(self, images: Tensor, draw: Draw) -> list[Tensor]:
        """Two views by one policy, and small ones."""
        pair = two_views(images, self.view, self.view, draw)
        return [*pair, *self.small.of(images, self.view, draw, self.encoder, pair[0])]

    def forward(self, views: list[Tensor]) -> dict[str, Tensor]:
        """NT-Xent of the two views' outputs, or the mean over all pairs that a large view is part of."""
        features = self.encoder.together(views[:2])  # (2N, F): batch norm sees both views together
        first, second = self.head(features).chunk(2)  # (N, D) each
        small = [self.head(self.encoder(view)) for view in views[2:]]
        losses = [nt_xent(*pair, temperature=self.temperature) for pair in pairs_with_large(first, second, small)]
        return {"loss": mean(losses), "features": features[: len(first)].detach()}

    def head_layer(self) -> nn.Sequential:
        """Linear, batch norm, ReLU."""
        layer = self.head[0]
        assert isinstance(layer, nn.Sequential)
        return layer
