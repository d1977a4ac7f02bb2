"""Logistic regression along a path of strengths, by Newton's method.

For each strength it minimises

    mean loss + strength / 2 · ||W||²,   the bias not penalised,

where the loss is the cross entropy of the classes, or, for images that may show several things, the sum over classes of
a binary cross entropy. Neither centring nor rotating the features changes that minimum, so it is sought along the
principal axes of the features, where the Hessian is nearly diagonal: conjugate gradients, preconditioned by its
diagonal, solve for Newton's step in a few products. The minima of neighbouring strengths lie on a smooth curve, so
each search begins where the last three point to. benchmarks/regression.py compares it with scikit-learn's L-BFGS.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from hardpair.data.progress import progress
from hardpair.evaluate.class_losses import Binary, Loss, Multinomial
from hardpair.words import several

NEGLIGIBLE = 1e-12  # axes with a smaller share of the largest variance are the rounding of float32 features
DOUBLE_UP_TO = 2**22  # features; small problems are often nearly separable, where single precision stops too early
AT_ONCE = 8192  # rows taken to double precision, or squared, at a time
IN_CACHE = 1024  # rows that both matrix products of a step see before they leave the processor's cache
CLOSE = 1e-5  # above the minimum of the objective; nobody's accuracy changes by less
UNSOLVED = 0.03  # of Newton's equation: a step solved better is not a better step; with .1 some searches end too early
NEWTON_STEPS, PRODUCTS, SMALLEST_STEP = 100, 500, 1e-6  # ends of loops, not settings: a search takes 1 to 5 steps


def regression_path(features: Tensor, targets: Tensor, strengths: Sequence[float], *, classes: int = 0) -> list[Tensor]:
    """Weights (D + 1, C), the last row the bias, for each strength.

    Args:
        features: float32 (N, D).
        targets: labels (N,) from 0, or (N, C) of 1 (present), -1 (absent) and 0 (not to be counted).
        strengths: of the penalty; fastest from strong to weak in even steps of their logarithm.
        classes: at least so many, also where the labels show fewer.
    """
    kind = torch.float64 if features.numel() <= DOUBLE_UP_TO else torch.float32
    axes = Axes(features)
    turned = axes.turn(features, kind)  # (N, R + 1)
    penalised = turned.new_ones(turned.shape[1], 1)
    penalised[-1] = 0  # the bias
    if targets.ndim == 1:
        classes = max(classes, int(targets.max()) + 1)
        loss: Loss = Multinomial(targets, turned.new_tensor(1 / len(targets)))
    else:
        classes, loss = targets.shape[1], Binary(targets.to(kind))
    found = [Point(turned.new_zeros(len(penalised), classes), turned.new_zeros(len(turned), classes))]
    weights = []
    with progress(f"regression on {several(len(features), 'image')}", len(strengths)) as advance:
        for strength in strengths:
            search = Search(turned, loss, strength * penalised)
            found.append(search.minimise(starts=[found[-1], *_where_they_point(found)]))
            weights.append(axes.turn_back(found[-1].weight))
            found = found[-3:]
            advance(1)
    return weights


def predict(features: Tensor, weight: Tensor) -> Tensor:
    """Logits (N, C)."""
    return torch.addmm(weight[-1], features, weight[:-1])


class Point(NamedTuple):
    """Weights, and the logits (N, C) that they give."""

    weight: Tensor
    logits: Tensor

    def towards(self, other: "Point", share: float) -> "Point":
        """A point between this one and another."""
        return Point(*(torch.lerp(ours, theirs, share) for ours, theirs in zip(self, other, strict=True)))


def _where_they_point(found: list[Point]) -> list[Point]:
    """The next point of a smooth curve in even steps, if there are enough."""
    if len(found) < 3:
        return []
    return [Point(*(a + 3 * (c - b) for a, b, c in zip(*found[-3:], strict=True)))]


class Axes:
    """The principal axes of centred features; directions in which they do not vary are left out."""

    def __init__(self, features: Tensor) -> None:
        self.mean = features.mean(0)
        variance, axes = torch.linalg.eigh(_covariance(features, self.mean))
        self.axes = axes[:, variance > NEGLIGIBLE * variance[-1].clamp_min(1e-30)]  # (D, R)

    def turn(self, features: Tensor, kind: torch.dtype) -> Tensor:
        """Coordinates along the axes, and a one for the bias: (N, D) → (N, R + 1)."""
        mean, axes = self.mean.to(kind), self.axes.to(kind)
        turned = features.new_ones(len(features), axes.shape[1] + 1, dtype=kind)
        for part, out in zip(features.split(AT_ONCE), turned.split(AT_ONCE), strict=True):  # no second copy of them all
            out[:, :-1] = (part.to(kind) - mean) @ axes
        return turned

    def turn_back(self, weight: Tensor) -> Tensor:
        """The weights (D + 1, C), float32, that do to features what (R + 1, C) do to their coordinates."""
        original = self.axes @ weight[:-1].double()
        return torch.cat([original, (weight[-1] - self.mean.double() @ original)[None]]).float()


def _covariance(features: Tensor, mean: Tensor) -> Tensor:
    """In double precision: single features may vary a million times less than others and still tell classes apart."""
    total = features.new_zeros(len(mean), len(mean), dtype=torch.float64)
    for part in features.split(AT_ONCE):
        centred = (part - mean).double()
        total.addmm_(centred.T, centred)
    return total / len(features)


class Search:
    """Looks for the weights (R + 1, C) of the least penalised loss."""

    def __init__(self, features: Tensor, loss: Loss, penalty: Tensor) -> None:
        self.features, self.loss, self.penalty = features, loss, penalty

    def minimise(self, starts: list[Point]) -> Point:
        """Newton's method from the best of the starts."""
        begun = [(start, *self.at(start)) for start in starts]
        point, value, probs = min(begun, key=lambda start: start[1])
        diagonal = self.diagonal(probs)  # good enough for the whole search
        for _ in range(NEWTON_STEPS):
            gradient = self.features.T @ self.loss.gradient(probs) + self.penalty * point.weight
            step = self.newton_step(gradient, probs, diagonal)
            weight = point.weight + step
            there = Point(weight, self.features @ weight)
            gain = -float((gradient * step).sum()) / 2
            if gain < CLOSE:
                return there
            size, ahead = 1.0, there
            while (seen := self.at(ahead))[0] > value - 2e-4 * size * gain:
                size /= 2
                if size < SMALLEST_STEP:  # only rounding is left
                    return point
                ahead = point.towards(there, size)
            point, (value, probs) = ahead, seen
        return point

    def at(self, point: Point) -> tuple[float, Tensor]:
        """The penalised loss, and the probabilities."""
        value, probs = self.loss.at(point.logits)
        return value + float((self.penalty * point.weight.square()).sum()) / 2, probs

    def diagonal(self, probs: Tensor) -> Tensor:
        """Diagonal of the Hessian."""
        parts = zip(self.features.split(AT_ONCE), self.loss.hessian_diagonal(probs).split(AT_ONCE), strict=True)
        return sum((rows.square().T @ diagonal for rows, diagonal in parts), self.penalty).clamp_min(1e-30)

    def newton_step(self, gradient: Tensor, probs: Tensor, diagonal: Tensor) -> Tensor:
        """An approximate solution of: Hessian times step = minus gradient."""
        some = [slice(start, start + IN_CACHE) for start in range(0, len(probs), IN_CACHE)]
        pieces = [(self.features[rows], probs[rows], self.loss.of(rows)) for rows in some]

        def product(change: Tensor) -> Tensor:
            image = self.penalty * change
            for rows, some, loss in pieces:
                image.addmm_(rows.T, loss.hessian_product(some, rows @ change))
            return image

        # The Hessian is at least the penalty, which bounds what a better solution could still gain.
        least = torch.where(self.penalty > 0, self.penalty, diagonal)
        return conjugate_gradients(product, -gradient, diagonal, least)


def conjugate_gradients(product: Callable[[Tensor], Tensor], right: Tensor, diagonal: Tensor, least: Tensor) -> Tensor:
    """An approximate x with product(x) = right, given the diagonal of the positive operator and a lower bound of it."""
    found, residual = torch.zeros_like(right), right.clone()
    direction = residual / diagonal
    length = first = float((residual * direction).sum())
    for _ in range(PRODUCTS):
        image = product(direction)
        curvature = float((direction * image).sum())
        if curvature <= 0:  # flat to rounding
            break
        found.add_(direction, alpha=length / curvature)
        residual.sub_(image, alpha=length / curvature)
        scaled = residual / diagonal
        length, before = float((residual * scaled).sum()), length
        if length <= UNSOLVED**2 * first or float((residual.square() / least).sum()) / 2 < CLOSE:
            break
        direction = scaled.add_(direction, alpha=length / before)
    return found
