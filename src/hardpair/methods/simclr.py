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
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        head_hidden: int = 0,
        head_outputs: int = 128,
        view: PolicyName = "simclr",
        temperature: float = 0.1,
    ) -> None:
        super().__init__()
        require_range("temperature", temperature, 1e-3, 100)
        self.encoder = encoder
        self.head = mlp(encoder.num_features, head_hidden or encoder.num_features, head_outputs, last="scaled")
        self.view, self.temperature = view, temperature

    def views(self, images: Tensor, draw: Draw) -> list[Tensor]:
        """Two views by one policy."""
        return two_views(images, self.view, self.view, draw)

    def forward(self, views: list[Tensor]) -> dict[str, Tensor]:
        """NT-Xent of the two views' outputs."""
        features = self.encoder.together(views)  # (2N, F): batch norm sees both views together
        first, second = self.head(features).chunk(2)  # (N, D) each
        loss = nt_xent(first, second, temperature=self.temperature)
        return {"loss": loss, "features": features[: len(first)].detach()}
