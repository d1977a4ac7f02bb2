"""Logistic regression along a path of strengths: L-BFGS in coordinates where every direction is about as steep.

For each strength it minimises

    mean loss + strength / 2 · ||W||²,   the bias not penalised,

where the loss is the cross entropy of the classes, or, for images that may show several things, the sum over classes of
a binary cross entropy. Neither centring the features nor turning them changes that minimum, so it is sought along the
principal axes of the features, each scaled by what the curvature there is at the start: ten times fewer steps than on
features as they come (benchmarks/regression.py).
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, softplus

NEGLIGIBLE = 1e-7  # axes with a smaller share of the largest variance are noise of float32
Loss = Callable[[Tensor], Tensor]


def regression_path(features: Tensor, targets: Tensor, strengths: Sequence[float], *, classes: int = 0) -> list[Tensor]:
    """Weights (D + 1, C), the last row the bias, for each strength; each fit starts where the one before it ended.

    Args:
        features: float32 (N, D).
        targets: labels (N,) from 0, or (N, C) of 1 (present), -1 (absent) and 0 (not to be counted).
        strengths: of the penalty; from strong to weak is fastest.
        classes: at least so many, also where the labels show fewer.
    """
    axes = Axes(features)
    turned = axes.turn(features)  # (N, R)
    loss, curvature, classes = _loss_of(targets, classes)
    weight = torch.zeros(turned.shape[1] + 1, classes)
    weights = []
    for strength in strengths:
        weight = _fit(turned, loss, strength, scale=(curvature * axes.variance + strength).rsqrt(), start=weight)
        weights.append(axes.turn_back(weight))
    return weights


def predict(features: Tensor, weight: Tensor) -> Tensor:
    """Class scores (N, C)."""
    return torch.addmm(weight[-1], features, weight[:-1])


class Axes:
    """The principal axes of centred features; directions in which they do not vary are left out."""

    def __init__(self, features: Tensor) -> None:
        self.mean = features.mean(0)
        centred = features - self.mean
        variance, axes = torch.linalg.eigh((centred.T @ centred).double() / len(features))
        kept = variance > NEGLIGIBLE * variance[-1].clamp_min(1e-30)
        self.variance, self.axes = variance[kept].float(), axes[:, kept].float()  # (R,), (D, R)

    def turn(self, features: Tensor) -> Tensor:
        """Coordinates along the axes: (N, D) → (N, R)."""
        turned: Tensor = (features - self.mean) @ self.axes
        return turned

    def turn_back(self, weight: Tensor) -> Tensor:
        """The weights (D + 1, C) that do to features what (R + 1, C) do to their coordinates."""
        original = self.axes @ weight[:-1]
        return torch.cat([original, (weight[-1] - self.mean @ original)[None]])


def _loss_of(targets: Tensor, classes: int) -> tuple[Loss, float, int]:
    """The mean loss as a function of class scores, its curvature where all classes score the same, and their number."""
    if targets.ndim == 1:
        classes = max(classes, int(targets.max()) + 1)
        return lambda scores: cross_entropy(scores, targets), (1 - 1 / classes) / classes, classes
    signs = targets.float()
    share = targets.ne(0) / targets.ne(0).sum(0).clamp_min(1)  # each class is a problem of its own, with its own mean
    return lambda scores: (softplus(-signs * scores) * share).sum(), 0.25, targets.shape[1]


def _fit(turned: Tensor, loss: Loss, strength: float, *, scale: Tensor, start: Tensor) -> Tensor:
    features, penalty = turned * scale, strength / 2 * scale.square()[:, None]
    weight = torch.cat([start[:-1] / scale[:, None], start[-1:]]).requires_grad_()
    solver = torch.optim.LBFGS(
        [weight],
        max_iter=300,
        history_size=10,
        tolerance_grad=1e-6,
        tolerance_change=1e-7,
        line_search_fn="strong_wolfe",
    )

    def objective() -> Tensor:
        solver.zero_grad()
        value = loss(predict(features, weight)) + (penalty * weight[:-1].square()).sum()
        value.backward()
        return value

    solver.step(objective)
    found = weight.detach()
    return torch.cat([found[:-1] * scale[:, None], found[-1:]])
