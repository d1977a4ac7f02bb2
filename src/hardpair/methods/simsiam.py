"""SimSiam: predict one view's output from the other's, through one network. No negatives, no moving average.

BYOL with the target network replaced by a stopped gradient: simpler and cheaper, and it still does not collapse.

Paper:   Chen and He, "Exploring Simple Siamese Representation Learning", 2020.
Loss:    -cos of prediction and the other view's (constant) output, mean of both ways round; here plus 1, so that
         it is at least 0, which changes no gradient.
Differs: nothing in the method; the views are the shared ones.
"""

from collections.abc import Iterable

from torch import Tensor, nn

from hardpair.errors import require_range
from hardpair.losses import cosine_regression
from hardpair.methods.method import Method
from hardpair.methods.small_views import SmallViews, mean, others
from hardpair.models import Encoder, mlp
from hardpair.views import Draw, PolicyName, two_views


class SimSiam(Method):
    """SimSiam. The defaults are the paper's for ImageNet.

    Args:
        encoder: the encoder to train.
        head_layers: layers of the projector, 3 on ImageNet and 2 on CIFAR-10.
        head_outputs: width of all its layers.
        predictor_hidden: width of the predictor's hidden layer, a quarter of the outputs.
        view: augmentation of both views.
        small_views: further, smaller views; each must agree with both large ones.
        small_size: side of a small view as a share of that of the others.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        head_layers: int = 3,
        head_outputs: int = 2048,
        predictor_hidden: int = 512,
        view: PolicyName = "moco",
        small_views: int = 0,
        small_size: float = 2 / 3,
    ) -> None:
        super().__init__()
        require_range("head_layers", head_layers, 1, 10)
        self.encoder = encoder
        self.projector = mlp(encoder.num_features, *[head_outputs] * head_layers, last="normed")
        self.predictor = mlp(head_outputs, predictor_hidden, head_outputs)
        self.view = view
        self.small = SmallViews(small_views, small_size)

    def constant_rate(self) -> Iterable[nn.Parameter]:
        """The predictor's learning rate does not decay: it must keep up with what it predicts."""
        return self.predictor.parameters()

    def views(self, images: Tensor, draw: Draw) -> list[Tensor]:
        """Two views by one policy, and small ones."""
        pair = two_views(images, self.view, self.view, draw)
        return [*pair, *self.small.of(images, self.view, draw, self.encoder, pair[0])]

    def forward(self, views: list[Tensor]) -> dict[str, Tensor]:
        """Each view's prediction of the outputs of the others; small views have none."""
        features = [self.encoder(view) for view in views]  # (N, F) each
        outputs = [self.projector(rows) for rows in features]  # (N, D) each
        predictions = [self.predictor(rows) for rows in outputs]
        ways = [
            mean([cosine_regression(prediction, outputs[place]) for prediction in others(predictions, place)])
            for place in (0, 1)
        ]
        return {"loss": (ways[0] + ways[1]) / 4, "features": features[0].detach()}  # 2 - 2 cos, twice
