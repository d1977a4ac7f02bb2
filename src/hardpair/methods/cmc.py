"""CMC: the brightness of an image and its colours are two views of one thing.

The encoder is two streams of half the width, one for luminance and one for colour; each must find the other's vector
of the same image. Views are crops: the channels themselves are what differs.

Paper:   Tian, Krishnan and Isola, "Contrastive Multiview Coding", 2019.
Loss:    -log softmax of cosine / temperature of one stream over the other stream's bank, both ways, summed.
Differs: a memory bank per stream, as published, rather than negatives of the batch: it needs no large batch, which is
         its point, and shares its code with InstDisc. The colour space is YDbDr, which the authors' later code found
         better than Lab; softmax instead of noise contrastive estimation, also theirs; sampled negatives are shared.
"""

import torch
from torch import Tensor

from hardpair.errors import UserError, require_range
from hardpair.losses import find_own
from hardpair.methods.method import Method
from hardpair.models import Bank, Encoder, build_encoder, mlp
from hardpair.views import POLICIES, Draw, PolicyName, augmented_view


class CMC(Method):
    """Contrastive multiview coding. The defaults are the paper's for ImageNet.

    Args:
        encoder: its depth, width and stem are those of the two streams together.
        head_outputs: width of the vectors.
        view: augmentation of the image both streams see.
        temperature: divides the similarities.
        negatives: vectors of the other bank to sample as negatives; 0 takes all.
        bank_momentum: share of an image's old vectors kept when it is seen again.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        head_outputs: int = 128,
        view: PolicyName = "crop",
        temperature: float = 0.07,
        negatives: int = 16_384,
        bank_momentum: float = 0.5,
    ) -> None:
        super().__init__()
        require_range("temperature", temperature, 1e-3, 100)
        require_range("negatives", negatives, 0, 10_000_000)
        require_range("bank_momentum", bank_momentum, 0, 1)
        self.encoder = build_encoder(**{**encoder.settings, "colour_streams": True})
        self.luminance_head = mlp(self.encoder.num_features // 2, head_outputs)
        self.colour_head = mlp(self.encoder.num_features // 2, head_outputs)
        self.luminance_bank, self.colour_bank = Bank(1, head_outputs), Bank(1, head_outputs)
        self.fresh: list[Tensor] = []  # rows and outputs of this step, for the banks once the step is done
        self.head_outputs, self.view, self.temperature = head_outputs, view, temperature
        self.negatives, self.bank_momentum = negatives, bank_momentum

    def prepare(self, pixels: Tensor) -> None:
        """A vector in both banks for every image; grey images are refused, since they have no second view."""
        some = pixels[:: max(1, len(pixels) // 1000)]
        if torch.equal(some[:, 0], some[:, 1]) and torch.equal(some[:, 0], some[:, 2]):
            raise UserError("method: cmc compares brightness with colour, and these images are grey; choose another")
        self.luminance_bank = Bank(len(pixels), self.head_outputs)
        self.colour_bank = Bank(len(pixels), self.head_outputs)

    def views(self, images: Tensor, draw: Draw) -> list[Tensor]:
        """One view, the rows of these images in the banks, and the rows of sampled negatives."""
        assert draw.rows is not None
        sampled = (draw.shared("negatives", self.negatives) * len(self.colour_bank.vectors)).long()
        return [augmented_view(images, POLICIES[self.view], draw), draw.rows, sampled]

    def forward(self, views: list[Tensor]) -> dict[str, Tensor]:
        """Each stream must find the other's vector of its image."""
        view, rows, sampled = views
        features = self.encoder(view)  # (N, F)
        luminance, colour = features.chunk(2, dim=1)  # (N, F/2) each
        u, v = self.luminance_head(luminance), self.colour_head(colour)  # (N, D) each
        loss = find_own(u, self.colour_bank.vectors, rows, sampled, temperature=self.temperature)
        loss = loss + find_own(v, self.luminance_bank.vectors, rows, sampled, temperature=self.temperature)
        self.fresh = [rows, u.detach(), v.detach()]
        return {"loss": loss, "features": features.detach()}

    def after_step(self, progress: float) -> None:  # noqa: ARG002
        """The banks learn the new outputs."""
        if self.fresh:
            rows, u, v = self.fresh
            self.luminance_bank.update(rows, u, keep=self.bank_momentum)
            self.colour_bank.update(rows, v, keep=self.bank_momentum)
        self.fresh = []
