"""Logistic regression along a path of penalties, by Newton's method.

For each penalty λ it minimises

    mean loss + λ / 2 · ||W||²,   the bias not penalised,

where the loss is the cross entropy of the classes, or, for images that may have several labels, the sum over classes of
a binary cross entropy. Neither centring nor rotating the features changes that minimum, so it is sought along the
principal axes of the features, where the Hessian is nearly diagonal: conjugate gradients, preconditioned by its
diagonal, solve for Newton's step in a few products. The minima of neighbouring penalties lie on a smooth curve, so
each search starts where the last three extrapolate to. benchmarks/regression.py compares it with scikit-learn's L-BFGS.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from hardpair.data.progress import progress
from hardpair.text import several

NEGLIGIBLE = 1e-12  # axes with a smaller share of the largest variance are the rounding of float32 features
DOUBLE_UP_TO = 2**22  # features; small problems are often nearly separable, where single precision stops too early
CHUNK = 8192  # rows converted to double precision, or squared, at a time
CACHED_ROWS = 1024  # rows that both matrix products of a step use while they are in the processor's cache
TOLERANCE = 1e-5  # of the objective; no accuracy changes by less
CG_TOLERANCE = 0.03  # of Newton's equation: a more exact step is not a better step; with .1 some searches end too early
MAX_STEPS, MAX_PRODUCTS, MIN_STEP = 100, 500, 1e-6  # only guards: a search takes 1 to 5 steps


def regression_path(features: Tensor, targets: Tensor, penalties: Sequence[float], *, classes: int = 0) -> list[Tensor]:
    """Weights (D + 1, C), the last row the bias, for each penalty.

    Args:
        features: float32 (N, D).
        targets: labels (N,) from 0, or (N, C) of 1 (present), -1 (absent) and 0 (not to be counted).
        penalties: fastest from strong to weak in even steps of their logarithm.
        classes: at least so many, even if the labels show fewer.
    """
    dtype = torch.float64 if features.numel() <= DOUBLE_UP_TO else torch.float32
    axes = PrincipalAxes(features)
    projected = axes.project(features, dtype)  # (N, R + 1)
    penalised = projected.new_ones(projected.shape[1], 1)
    penalised[-1] = 0  # the bias
    if targets.ndim == 1:
        classes = max(classes, int(targets.max()) + 1)
        loss: Multinomial | Binary = Multinomial(targets, projected.new_tensor(1 / len(targets)))
    else:
        classes, loss = targets.shape[1], Binary(targets.to(dtype))
    path = [Solution(projected.new_zeros(len(penalised), classes), projected.new_zeros(len(projected), classes))]
    weights = []
    with progress(f"regression on {several(len(features), 'image')}", len(penalties)) as advance:
        for penalty in penalties:
            newton = Newton(projected, loss, penalty * penalised)
            path.append(newton.minimise(starts=[path[-1], *_extrapolate(path)]))
            weights.append(axes.unproject(path[-1].weight))
            path = path[-3:]
            advance(1)
    return weights


def predict(features: Tensor, weight: Tensor) -> Tensor:
    """Logits (N, C)."""
    return torch.addmm(weight[-1], features, weight[:-1])


class Multinomial:
    """The mean cross entropy of labels (N,). Derivatives are functions of the class probabilities (N, C)."""

    def __init__(self, labels: Tensor, share: Tensor) -> None:
        self.labels, self.share = labels[:, None], share

    def at(self, logits: Tensor) -> tuple[float, Tensor]:
        """The loss of logits (N, C), and their probabilities."""
        logarithm = logits.log_softmax(1)
        value = -float(logarithm.gather(1, self.labels).double().sum() * self.share)
        return value, logarithm.exp_()

    def gradient(self, probs: Tensor) -> Tensor:
        """Gradient with respect to the logits."""
        minus = torch.full_like(probs[:, :1], -1.0)
        return probs.scatter_add(1, self.labels, minus).mul_(self.share)

    def hessian_diagonal(self, probs: Tensor) -> Tensor:
        """Diagonal of the Hessian with respect to the logits."""
        return torch.addcmul(probs, probs, probs, value=-1).mul_(self.share)

    def hessian_product(self, probs: Tensor, change: Tensor) -> Tensor:
        """Hessian-vector product with a change of the logits, which may be overwritten."""
        change = change.mul_(probs)
        return change.addcmul_(probs, change.sum(1, keepdim=True), value=-1).mul_(self.share)

    def of(self, rows: slice) -> "Multinomial":
        """The part of the loss that these rows contribute."""
        return Multinomial(self.labels[rows, 0], self.share)


class Binary:
    """The same for signs (N, C): mean binary cross entropies, summed over the classes."""

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


class Solution(NamedTuple):
    """Weights, and the logits (N, C) that they give."""

    weight: Tensor
    logits: Tensor

    def towards(self, other: "Solution", share: float) -> "Solution":
        """A point between this one and another."""
        return Solution(*(torch.lerp(ours, theirs, share) for ours, theirs in zip(self, other, strict=True)))


def _extrapolate(path: list[Solution]) -> list[Solution]:
    """The next point of the parabola through the last three, if there are three."""
    if len(path) < 3:
        return []
    return [Solution(*(a + 3 * (c - b) for a, b, c in zip(*path[-3:], strict=True)))]


class PrincipalAxes:
    """The principal axes of centred features; directions in which they do not vary are left out."""

    def __init__(self, features: Tensor) -> None:
        self.mean = features.mean(0)
        variance, axes = torch.linalg.eigh(_covariance(features, self.mean))
        self.axes = axes[:, variance > NEGLIGIBLE * variance[-1].clamp_min(1e-30)]  # (D, R)

    def project(self, features: Tensor, dtype: torch.dtype) -> Tensor:
        """Coordinates along the axes, and a one for the bias: (N, D) → (N, R + 1)."""
        mean, axes = self.mean.to(dtype), self.axes.to(dtype)
        projected = features.new_ones(len(features), axes.shape[1] + 1, dtype=dtype)
        for part, out in zip(features.split(CHUNK), projected.split(CHUNK), strict=True):  # no second copy of them all
            out[:, :-1] = (part.to(dtype) - mean) @ axes
        return projected

    def unproject(self, weight: Tensor) -> Tensor:
        """Weights for features, (D + 1, C) in float32, from weights (R + 1, C) for their coordinates."""
        original = self.axes @ weight[:-1].double()
        return torch.cat([original, (weight[-1] - self.mean.double() @ original)[None]]).float()


def _covariance(features: Tensor, mean: Tensor) -> Tensor:
    """In double precision: single features may vary a million times less than others and still tell classes apart."""
    total = features.new_zeros(len(mean), len(mean), dtype=torch.float64)
    for part in features.split(CHUNK):
        centred = (part - mean).double()
        total.addmm_(centred.T, centred)
    return total / len(features)


class Newton:
    """Newton's method for the weights (R + 1, C) that minimise the penalised loss."""

    def __init__(self, features: Tensor, loss: Multinomial | Binary, penalty: Tensor) -> None:
        self.features, self.loss, self.penalty = features, loss, penalty

    def minimise(self, starts: list[Solution]) -> Solution:
        """From the best of the starts, with a backtracking line search."""
        evaluated = [(start, *self.objective(start)) for start in starts]
        point, value, probs = min(evaluated, key=lambda start: start[1])
        diagonal = self.diagonal(probs)  # good enough for the whole search
        for _ in range(MAX_STEPS):
            gradient = self.features.T @ self.loss.gradient(probs) + self.penalty * point.weight
            step = self.newton_step(gradient, probs, diagonal)
            weight = point.weight + step
            full = Solution(weight, self.features @ weight)
            gain = -float((gradient * step).sum()) / 2
            if gain < TOLERANCE:
                return full
            size, trial = 1.0, full
            while (found := self.objective(trial))[0] > value - 2e-4 * size * gain:
                size /= 2
                if size < MIN_STEP:  # only rounding is left
                    return point
                trial = point.towards(full, size)
            point, (value, probs) = trial, found
        return point

    def objective(self, point: Solution) -> tuple[float, Tensor]:
        """The penalised loss, and the probabilities."""
        value, probs = self.loss.at(point.logits)
        return value + float((self.penalty * point.weight.square()).sum()) / 2, probs

    def diagonal(self, probs: Tensor) -> Tensor:
        """Diagonal of the Hessian."""
        parts = zip(self.features.split(CHUNK), self.loss.hessian_diagonal(probs).split(CHUNK), strict=True)
        return sum((rows.square().T @ diagonal for rows, diagonal in parts), self.penalty).clamp_min(1e-30)

    def newton_step(self, gradient: Tensor, probs: Tensor, diagonal: Tensor) -> Tensor:
        """An approximate solution of: Hessian times step = minus gradient."""
        slices = [slice(start, start + CACHED_ROWS) for start in range(0, len(probs), CACHED_ROWS)]
        pieces = [(self.features[rows], probs[rows], self.loss.of(rows)) for rows in slices]

        def product(change: Tensor) -> Tensor:
            total = self.penalty * change
            for features, some, loss in pieces:
                total.addmm_(features.T, loss.hessian_product(some, features @ change))
            return total

        # The Hessian is at least the penalty, which bounds what a better solution could still gain.
        least = torch.where(self.penalty > 0, self.penalty, diagonal)
        return conjugate_gradients(product, -gradient, diagonal, least)


def conjugate_gradients(product: Callable[[Tensor], Tensor], right: Tensor, diagonal: Tensor, least: Tensor) -> Tensor:
    """An approximate x with product(x) = right, given the diagonal of the positive operator and a lower bound of it."""
    solution, residual = torch.zeros_like(right), right.clone()
    direction = residual / diagonal
    length = first = float((residual * direction).sum())
    for _ in range(MAX_PRODUCTS):
        image = product(direction)
        curvature = float((direction * image).sum())
        if curvature <= 0:  # zero up to rounding
            break
        solution.add_(direction, alpha=length / curvature)
        residual.sub_(image, alpha=length / curvature)
        scaled = residual / diagonal
        length, before = float((residual * scaled).sum()), length
        if length <= CG_TOLERANCE**2 * first or float((residual.square() / least).sum()) / 2 < TOLERANCE:
            break
        direction = scaled.add_(direction, alpha=length / before)
    return solution
