"""Logistic regression along a path of strengths, by Newton's method.

For each strength it minimises

    mean loss + strength / 2 · ||W||²,   the bias not penalised,

where the loss is the cross entropy of the classes, or, for images that may show several things, the sum over classes of
a binary cross entropy. Neither centring the features nor turning them changes that minimum, so it is sought along the
principal axes of the features, where the curvature is nearly diagonal: conjugate gradients, given its diagonal, solve
for Newton's step in a few products. The minima of neighbouring strengths lie on a smooth curve, so each search begins
where the last three point to. benchmarks/regression.py has it beside scikit-learn's L-BFGS.
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
    """Class scores (N, C)."""
    return torch.addmm(weight[-1], features, weight[:-1])


class Point(NamedTuple):
    """A place to look at: weights, and the scores (N, C) that they give."""

    weight: Tensor
    scores: Tensor

    def towards(self, other: "Point", share: float) -> "Point":
        """A place between this one and another."""
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
        point, value, chances = min(begun, key=lambda start: start[1])
        diagonal = self.diagonal(chances)  # good enough for the whole search
        for _ in range(NEWTON_STEPS):
            slope = self.features.T @ self.loss.slope(chances) + self.penalty * point.weight
            step = self.newton_step(slope, chances, diagonal)
            weight = point.weight + step
            there = Point(weight, self.features @ weight)
            gain = -float((slope * step).sum()) / 2
            if gain < CLOSE:
                return there
            size, ahead = 1.0, there
            while (seen := self.at(ahead))[0] > value - 2e-4 * size * gain:
                size /= 2
                if size < SMALLEST_STEP:  # only rounding is left
                    return point
                ahead = point.towards(there, size)
            point, (value, chances) = ahead, seen
        return point

    def at(self, point: Point) -> tuple[float, Tensor]:
        """The penalised loss, and the chances."""
        value, chances = self.loss.at(point.scores)
        return value + float((self.penalty * point.weight.square()).sum()) / 2, chances

    def diagonal(self, chances: Tensor) -> Tensor:
        """Of the curvature."""
        parts = zip(self.features.split(AT_ONCE), self.loss.curvature(chances).split(AT_ONCE), strict=True)
        return sum((rows.square().T @ bend for rows, bend in parts), self.penalty).clamp_min(1e-30)

    def newton_step(self, slope: Tensor, chances: Tensor, diagonal: Tensor) -> Tensor:
        """Minus the slope divided by the curvature, about."""
        some = [slice(start, start + IN_CACHE) for start in range(0, len(chances), IN_CACHE)]
        pieces = [(self.features[rows], chances[rows], self.loss.of(rows)) for rows in some]

        def product(change: Tensor) -> Tensor:
            image = self.penalty * change
            for rows, likely, loss in pieces:
                image.addmm_(rows.T, loss.bend(likely, rows @ change))
            return image

        # The curvature is nowhere less than the penalty, so that bounds what a better solution could still gain.
        least = torch.where(self.penalty > 0, self.penalty, diagonal)
        return conjugate_gradients(product, -slope, diagonal, least)


def conjugate_gradients(product: Callable[[Tensor], Tensor], right: Tensor, diagonal: Tensor, least: Tensor) -> Tensor:
    """About the x with product(x) = right, given the diagonal of the (positive) product and its least values."""
    found, residual = torch.zeros_like(right), right.clone()
    direction = residual / diagonal
    length = first = float((residual * direction).sum())
    for _ in range(PRODUCTS):
        image = product(direction)
        bend = float((direction * image).sum())
        if bend <= 0:  # flat to rounding
            break
        found.add_(direction, alpha=length / bend)
        residual.sub_(image, alpha=length / bend)
        scaled = residual / diagonal
        length, before = float((residual * scaled).sum()), length
        if length <= UNSOLVED**2 * first or float((residual.square() / least).sum()) / 2 < CLOSE:
            break
        direction = scaled.add_(direction, alpha=length / before)
    return found
