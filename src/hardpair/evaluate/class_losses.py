"""The losses of logistic regression, with the derivatives that Newton's method needs."""

from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import softplus


class Loss(Protocol):
    """The mean loss of logits (N, C). Derivatives are functions of the class probabilities."""

    def at(self, logits: Tensor) -> tuple[float, Tensor]:
        """Its value, and the probabilities (N, C)."""

    def gradient(self, probs: Tensor) -> Tensor:
        """Gradient with respect to the logits."""

    def hessian_diagonal(self, probs: Tensor) -> Tensor:
        """Diagonal of the Hessian with respect to the logits."""

    def hessian_product(self, probs: Tensor, change: Tensor) -> Tensor:
        """Hessian-vector product with a change of the logits, which may be overwritten."""

    def of(self, rows: slice) -> "Loss":
        """The part of the loss that these rows contribute."""


class Multinomial:
    """Cross entropy of labels (N,), each counted with a share."""

    def __init__(self, labels: Tensor, share: Tensor) -> None:
        self.labels, self.share = labels[:, None], share

    def at(self, logits: Tensor) -> tuple[float, Tensor]:  # noqa: D102
        logarithm = logits.log_softmax(1)
        value = -float(logarithm.gather(1, self.labels).double().sum() * self.share)
        return value, logarithm.exp_()

    def gradient(self, probs: Tensor) -> Tensor:  # noqa: D102
        minus = torch.full_like(probs[:, :1], -1.0)
        return probs.scatter_add(1, self.labels, minus).mul_(self.share)

    def hessian_diagonal(self, probs: Tensor) -> Tensor:  # noqa: D102
        return torch.addcmul(probs, probs, probs, value=-1).mul_(self.share)

    def hessian_product(self, probs: Tensor, change: Tensor) -> Tensor:  # noqa: D102
        change = change.mul_(probs)
        return change.addcmul_(probs, change.sum(1, keepdim=True), value=-1).mul_(self.share)

    def of(self, rows: slice) -> "Multinomial":  # noqa: D102
        return Multinomial(self.labels[rows, 0], self.share)


class Binary:
    """Binary cross entropies of signs (N, C), summed over the classes; each is a problem of its own, with its mean."""

    def __init__(self, signs: Tensor, share: Tensor | None = None) -> None:
        self.signs = signs
        self.share = signs.ne(0).to(signs.dtype) / signs.ne(0).sum(0).clamp_min(1) if share is None else share

    def at(self, logits: Tensor) -> tuple[float, Tensor]:  # noqa: D102
        return float((softplus(-self.signs * logits) * self.share).double().sum()), logits.sigmoid()

    def gradient(self, probs: Tensor) -> Tensor:  # noqa: D102
        return (probs - (self.signs > 0).to(probs.dtype)) * self.share

    def hessian_diagonal(self, probs: Tensor) -> Tensor:  # noqa: D102
        return probs * (1 - probs) * self.share

    def hessian_product(self, probs: Tensor, change: Tensor) -> Tensor:  # noqa: D102
        return self.hessian_diagonal(probs).mul_(change)

    def of(self, rows: slice) -> "Binary":  # noqa: D102
        return Binary(self.signs[rows], self.share[rows])
