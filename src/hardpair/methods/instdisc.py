"""InstDisc: every image is a class of its own.

A bank remembers one vector per image, a moving average of its outputs; a view must find its own image's vector among
all. One view and one trained forward per step, the cheapest of all, but a vector is only refreshed once per epoch.

Paper:   Wu et al., "Unsupervised Feature Learning via Non-Parametric Instance Discrimination", 2018.
Loss:    -log softmax of cosine / temperature over the bank, or over the image's own vector and sampled ones.
Differs: a sampled set is shared by the batch, and a softmax over it takes the place of noise contrastive estimation
         (the authors' later code; better). The bank starts with random directions.
"""

from torch import Tensor

from hardpair.errors import require_range
from hardpair.losses import find_own
from hardpair.methods.method import Method
from hardpair.models import Bank, Encoder, mlp
from hardpair.views import POLICIES, Draw, PolicyName, augmented_view


class InstDisc(Method):
    """Instance discrimination. The defaults are the paper's for ImageNet, with the later softmax.

    Args:
        encoder: the encoder to train.
        head_outputs: width of the vectors.
        view: augmentation of the one view.
        temperature: divides the similarities.
        negatives: vectors of the bank to sample as negatives; 0 takes all.
        bank_momentum: share of an image's old vector kept when it is seen again.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        head_outputs: int = 128,
        view: PolicyName = "instdisc",
        temperature: float = 0.07,
        negatives: int = 65_536,
        bank_momentum: float = 0.5,
    ) -> None:
        super().__init__()
        require_range("temperature", temperature, 1e-3, 100)
        require_range("negatives", negatives, 0, 10_000_000)
        require_range("bank_momentum", bank_momentum, 0, 1)
        self.encoder = encoder
        self.head = mlp(encoder.num_features, head_outputs)
        self.bank = Bank(1, head_outputs)
        self.fresh: list[Tensor] = []  # rows and outputs of this step, for the bank once the step is done
        self.head_outputs, self.view, self.temperature = head_outputs, view, temperature
        self.negatives, self.bank_momentum = negatives, bank_momentum

    def prepare(self, pixels: Tensor) -> None:
        """A vector in the bank for every image."""
        self.bank = Bank(len(pixels), self.head_outputs)

    def views(self, images: Tensor, draw: Draw) -> list[Tensor]:
        """One view, the rows of these images in the bank, and the rows of sampled negatives."""
        assert draw.rows is not None
        sampled = (draw.shared("negatives", self.negatives) * len(self.bank.vectors)).long()
        return [augmented_view(images, POLICIES[self.view], draw), draw.rows, sampled]

    def forward(self, views: list[Tensor]) -> dict[str, Tensor]:
        """Each image must find its own vector."""
        view, rows, sampled = views
        features = self.encoder(view)  # (N, F)
        outputs = self.head(features)  # (N, D)
        loss = find_own(outputs, self.bank.vectors, rows, sampled, temperature=self.temperature)
        self.fresh = [rows, outputs.detach()]
        return {"loss": loss, "features": features.detach()}

    def after_step(self, progress: float) -> None:  # noqa: ARG002
        """The bank learns the new outputs."""
        if self.fresh:
            rows, outputs = self.fresh
            self.bank.update(rows, outputs, keep=self.bank_momentum)
        self.fresh = []
