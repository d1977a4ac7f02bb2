"""The losses of logistic regression, with the derivatives that Newton's method asks for."""

from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import softplus


class Loss(Protocol):
    """The mean loss of class scores (N, C), by way of the chances they give to the classes."""

    def at(self, scores: Tensor) -> tuple[float, Tensor]:
        """Its value and the chances (N, C)."""

    def slope(self, chances: Tensor) -> Tensor:
        """Its derivative by each score."""

    def curvature(self, chances: Tensor) -> Tensor:
        """Its second derivative by each score."""

    def bend(self, chances: Tensor, change: Tensor) -> Tensor:
        """What a change of the scores, which may be overwritten, adds to the slope."""

    def of(self, rows: slice) -> "Loss":
        """What these rows add to it."""


class Multinomial:
    """Cross entropy of labels (N,), each counted with a share."""

    def __init__(self, labels: Tensor, share: Tensor) -> None:
        self.labels, self.share = labels[:, None], share

    def at(self, scores: Tensor) -> tuple[float, Tensor]:  # noqa: D102
        logarithm = scores.log_softmax(1)
        value = -float(logarithm.gather(1, self.labels).double().sum() * self.share)
        return value, logarithm.exp_()

    def slope(self, chances: Tensor) -> Tensor:  # noqa: D102
        minus = torch.full_like(chances[:, :1], -1.0)
        return chances.scatter_add(1, self.labels, minus).mul_(self.share)

    def curvature(self, chances: Tensor) -> Tensor:  # noqa: D102
        return torch.addcmul(chances, chances, chances, value=-1).mul_(self.share)

    def bend(self, chances: Tensor, change: Tensor) -> Tensor:  # noqa: D102
        change = change.mul_(chances)
        return change.addcmul_(chances, change.sum(1, keepdim=True), value=-1).mul_(self.share)

    def of(self, rows: slice) -> "Multinomial":  # noqa: D102
        return Multinomial(self.labels[rows, 0], self.share)


class Binary:
    """Binary cross entropies of signs (N, C), summed over the classes; each is a problem of its own, with its mean."""

    def __init__(self, signs: Tensor, share: Tensor | None = None) -> None:
        self.signs = signs
        self.share = signs.ne(0).to(signs.dtype) / signs.ne(0).sum(0).clamp_min(1) if share is None else share

    def at(self, scores: Tensor) -> tuple[float, Tensor]:  # noqa: D102
        return float((softplus(-self.signs * scores) * self.share).double().sum()), scores.sigmoid()

    def slope(self, chances: Tensor) -> Tensor:  # noqa: D102
        return (chances - (self.signs > 0).to(chances.dtype)) * self.share

    def curvature(self, chances: Tensor) -> Tensor:  # noqa: D102
        return chances * (1 - chances) * self.share

    def bend(self, chances: Tensor, change: Tensor) -> Tensor:  # noqa: D102
        return self.curvature(chances).mul_(change)

    def of(self, rows: slice) -> "Binary":  # noqa: D102
        return Binary(self.signs[rows], self.share[rows])
