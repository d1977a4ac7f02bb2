"""Logistic regression along a path of strengths: L-BFGS in coordinates where every direction is about as steep.

For each strength it minimises

    mean loss + strength / 2 · ||W||²,   the bias not penalised,

where the loss is the cross entropy of the classes, or, for images that may show several things, the sum over classes of
a binary cross entropy. Neither centring the features nor turning them changes that minimum, so it is sought along the
principal axes of the features, each scaled by what the curvature there is at the start, which takes far fewer steps
than features as they come. benchmarks/regression.py has it beside scikit-learn's.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch.nn.functional import softplus

NEGLIGIBLE = 1e-12  # axes with a smaller share of the largest variance are the rounding of float32 features
DOUBLE_UP_TO = 2**22  # features; small problems are often nearly separable, where single precision stops too early
AT_ONCE = 65_536  # rows taken to double precision at a time
STOP = {"maxiter": 1000, "ftol": 1e-9, "gtol": 1e-7}  # one step of small gain is not yet the end, so nearly all of it
Loss = Callable[[Tensor], tuple[float, Tensor]]


def regression_path(features: Tensor, targets: Tensor, strengths: Sequence[float], *, classes: int = 0) -> list[Tensor]:
    """Weights (D + 1, C), the last row the bias, for each strength; each fit starts where the one before it ended.

    Args:
        features: float32 (N, D).
        targets: labels (N,) from 0, or (N, C) of 1 (present), -1 (absent) and 0 (not to be counted).
        strengths: of the penalty; from strong to weak is fastest.
        classes: at least so many, also where the labels show fewer.
    """
    kind = torch.float64 if features.numel() <= DOUBLE_UP_TO else torch.float32
    axes = Axes(features)
    turned = axes.turn(features, kind)  # (N, R)
    loss, curvature, classes = _loss_of(targets, classes, kind)
    weight = torch.zeros(turned.shape[1] + 1, classes, dtype=kind)
    weights = []
    # scipy's own threads would spin against torch's at every step: up to twenty times slower.
    with threadpool_limits(1, user_api="blas"):
        for strength in strengths:
            scale = (curvature * axes.variance + strength).rsqrt().to(kind)
            weight = _fit(turned, loss, strength, scale=scale, start=weight)
            weights.append(axes.turn_back(weight))
    return weights


def predict(features: Tensor, weight: Tensor) -> Tensor:
    """Class scores (N, C)."""
    return torch.addmm(weight[-1], features, weight[:-1])


class Axes:
    """The principal axes of centred features; directions in which they do not vary are left out."""

    def __init__(self, features: Tensor) -> None:
        self.mean = features.mean(0)
        variance, axes = torch.linalg.eigh(_covariance(features, self.mean))
        kept = variance > NEGLIGIBLE * variance[-1].clamp_min(1e-30)
        self.variance, self.axes = variance[kept], axes[:, kept]  # (R,), (D, R)

    def turn(self, features: Tensor, kind: torch.dtype) -> Tensor:
        """Coordinates along the axes: (N, D) → (N, R)."""
        turned: Tensor = (features.to(kind) - self.mean.to(kind)) @ self.axes.to(kind)
        return turned

    def turn_back(self, weight: Tensor) -> Tensor:
        """The weights (D + 1, C), float32, that do to features what (R + 1, C) do to their coordinates."""
        original = self.axes @ weight[:-1].double()
        return torch.cat([original, (weight[-1] - self.mean.double() @ original)[None]]).float()


def _covariance(features: Tensor, mean: Tensor) -> Tensor:
    """In double precision: single features may vary a million times less than others and still tell classes apart."""
    total = torch.zeros(len(mean), len(mean), dtype=torch.float64)
    for part in features.split(AT_ONCE):
        centred = (part - mean).double()
        total.addmm_(centred.T, centred)
    return total / len(features)


def _loss_of(targets: Tensor, classes: int, kind: torch.dtype) -> tuple[Loss, float, int]:
    """The mean loss as a function of class scores, its curvature where all classes score the same, and their number."""
    if targets.ndim == 1:
        classes = max(classes, int(targets.max()) + 1)
        return Multinomial(targets), (1 - 1 / classes) / classes, classes
    return Binary(targets.to(kind)), 0.25, targets.shape[1]


class Multinomial:
    """Cross entropy of labels (N,)."""

    def __init__(self, labels: Tensor) -> None:
        self.labels = labels[:, None]

    def __call__(self, scores: Tensor) -> tuple[float, Tensor]:
        """The mean, and its slope by each score."""
        logarithm = scores.log_softmax(1)
        value = -logarithm.gather(1, self.labels).double().mean()
        slope = logarithm.exp_()
        slope.scatter_add_(1, self.labels, torch.full_like(slope[:, :1], -1.0).expand_as(self.labels))
        return float(value), slope.div_(len(scores))


class Binary:
    """Binary cross entropies of signs (N, C), summed over the classes; each is a problem of its own, with its mean."""

    def __init__(self, signs: Tensor) -> None:
        self.signs = signs
        self.share = signs.ne(0).to(signs.dtype) / signs.ne(0).sum(0).clamp_min(1)

    def __call__(self, scores: Tensor) -> tuple[float, Tensor]:
        """The sum of the means, and its slope by each score."""
        margin = -self.signs * scores
        slope = -self.signs * margin.sigmoid() * self.share
        return float((softplus(margin) * self.share).double().sum()), slope


def _fit(turned: Tensor, loss: Loss, strength: float, *, scale: Tensor, start: Tensor) -> Tensor:
    features, penalty = turned * scale, strength * scale.square()[:, None]
    scaling = torch.cat([scale, scale.new_ones(1)])[:, None]

    def objective(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weight = torch.from_numpy(flat).to(start.dtype).view_as(start)
        value, slope = loss(predict(features, weight))
        pull = penalty * weight[:-1]
        gradient = torch.cat([torch.addmm(pull, features.T, slope), slope.sum(0, keepdim=True)])
        return value + float((pull * weight[:-1]).sum()) / 2, gradient.double().flatten().numpy()

    found = minimize(objective, (start / scaling).double().flatten().numpy(), jac=True, method="L-BFGS-B", options=STOP)
    return torch.from_numpy(found.x).to(start.dtype).view_as(start) * scaling
