"""Training with labels, in the same loop: the supervised baseline that self-supervised encoders are held against."""

from torch import Tensor, nn

from hardpair.data import Images
from hardpair.data.layout import why_unlabelled
from hardpair.errors import UserError
from hardpair.methods import Method
from hardpair.models import Encoder
from hardpair.views import POLICIES, Draw, augmented_view


class Supervised(Method):
    """An encoder and a linear classifier, trained together by cross entropy on random crops and flips.

    It keeps the contract of a method, so the one training loop runs it; the labels are looked up by row.
    """

    labels: Tensor

    def __init__(self, encoder: Encoder, images: Images) -> None:
        super().__init__()
        if images.labels is None:
            why = why_unlabelled(images.files)
            raise UserError(f"{images.name}: has no labels to train with{why}; choose a self-supervised method")
        self.encoder = encoder
        self.classifier = nn.Linear(encoder.num_features, len(images.classes))
        nn.init.normal_(self.classifier.weight, std=0.01)
        nn.init.zeros_(self.classifier.bias)
        self.register_buffer("labels", images.labels, persistent=False)  # data, not state

    def views(self, images: Tensor, draw: Draw) -> list[Tensor]:
        """A crop of each image, and its label."""
        assert draw.rows is not None
        return [augmented_view(images, POLICIES["crop"], draw), self.labels[draw.rows]]

    def forward(self, views: list[Tensor]) -> dict[str, Tensor]:
        """Cross entropy, and the share that was right."""
        view, labels = views
        features = self.encoder(view)  # (N, F)
        logits = self.classifier(features)  # (N, classes)
        right = (logits.detach().argmax(1) == labels).float().mean()
        loss = nn.functional.cross_entropy(logits, labels)
        return {"loss": loss, "features": features.detach(), "right": right}
