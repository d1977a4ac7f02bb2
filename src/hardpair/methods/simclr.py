"""SimCLR: two views of an image must find each other among all views of the batch.

Every other view is a negative, near or far, and both views carry the gradient, so large batches help and a step
costs two trained forwards.

Paper:   Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations", 2020.
Loss:    NT-Xent, -log softmax of cosine / temperature over the 2 N - 1 other views, mean over 2 N.
Differs: crops are bilinear, brightness multiplies, and images are normalised by ImageNet's mean and deviation.
"""

from torch import Tensor

from hardpair.errors import require_range
from hardpair.losses import nt_xent
from hardpair.methods.method import Method
from hardpair.methods.small_views import SmallViews, mean, pairs_with_large
from hardpair.models import Encoder, mlp
from hardpair.views import Draw, PolicyName, two_views


class SimCLR(Method):
    """SimCLR. The defaults are the paper's for ImageNet.

    Args:
        encoder: the encoder to train.
        head_hidden: width of the head's hidden layer; 0 takes the encoder's.
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
        self.encoder = encoder
        self.head = mlp(encoder.num_features, head_hidden or encoder.num_features, head_outputs, last="scaled")
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
