"""Sums over mined pairs of outputs, with a gradient by hand: for tens of thousands of rows without their matrix.

Distances are made for some rows at a time, in memory that is used again, and made once more for the gradient. In all
but giant batches the gradient's weights are kept instead. benchmarks/large_batch.py measures it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

MOST_KEPT = 2**26
"""Pairs whose weights are kept for the gradient: 256 MB, and as much again while it is made."""
MOST_DISTANCES = 2**23
"""Pairs that are compared at a time: 32 MB of distances. More are no faster; with fewer the gradients of all candidates
are gone through more often."""
ALL = slice(None)
TINY = torch.finfo(torch.float32).tiny


@dataclass(frozen=True)
class Pool:
    """Which pairs of anchors and candidates are mined."""

    limit: float  # the largest distance that is
    diagonal: int  # the first anchor's own image among the candidates; pairs of one image are not mined
    images: int  # how many there are; candidates are one output of each image, or one of each network


def distances(a: Tensor, b: Tensor) -> Tensor:
    """Squared distances of all rows of a (N, D) to all rows of b (M, D), by one GEMM: (N, M)."""
    return _distances(a, b, b.square().sum(1))


def _distances(a: Tensor, b: Tensor, squares: Tensor, out: Tensor | None = None) -> Tensor:
    return torch.addmm(squares, a, b.T, alpha=-2, out=out).add_(a.square().sum(1)[:, None]).clamp_min_(0)


def sum_mined(anchors: Tensor, candidates: Tensor, pool: Pool) -> tuple[Tensor, Tensor]:
    """Of each anchor (N, D), the sum of its distances to mined candidates (M, D), and how many these are: (N,) each."""
    figures, counts = _Sum.apply(anchors, candidates, pool)
    return figures, counts


def log_sum_mined(anchors: Tensor, candidates: Tensor, pool: Pool, softness: float) -> tuple[Tensor, Tensor]:
    """The same with ``s log sum exp(-d / s)``, which is 0 for an anchor that mined nothing."""
    figures, counts = _LogSum.apply(anchors, candidates, pool, softness)
    return figures, counts


class _Sum(Function):
    @staticmethod
    def forward(ctx: Any, anchors: Tensor, candidates: Tensor, pool: Pool) -> tuple[Tensor, Tensor]:
        figures, counts = anchors.new_empty(2, len(anchors)).unbind()
        ctx.weights = _room_for_all(anchors, candidates)
        for rows, distance, mined in _tiles(anchors, candidates, pool, masks=ctx.weights):
            counts[rows] = mined.sum(1)
            figures[rows] = distance.mul_(mined).sum(1)
        ctx.save_for_backward(anchors, candidates)
        ctx.pool = pool
        ctx.mark_non_differentiable(counts)
        return figures, counts

    @staticmethod
    def backward(ctx: Any, of_figures: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        anchors, candidates = ctx.saved_tensors
        gradients = _Gradients(anchors, candidates, ctx.needs_input_grad)
        if ctx.weights is not None:
            gradients.add(ALL, ctx.weights * of_figures[:, None])
            return *gradients.both(), None
        for rows, _distance, mined in _tiles(anchors, candidates, ctx.pool):
            gradients.add(rows, mined.mul_(of_figures[rows, None]))
        return *gradients.both(), None


class _LogSum(Function):
    @staticmethod
    def forward(ctx: Any, anchors: Tensor, candidates: Tensor, pool: Pool, softness: float) -> tuple[Tensor, Tensor]:
        figures, counts = anchors.new_empty(2, len(anchors)).unbind()
        ctx.weights = _room_for_all(anchors, candidates)
        for rows, distance, mined in _tiles(anchors, candidates, pool, own=math.inf, distances=ctx.weights):
            counts[rows] = mined.sum(1)
            nearness = distance.div_(-softness)
            nearest = nearness.amax(1).clamp_min_(torch.finfo(nearness.dtype).min)  # a lone image has no other
            shares = nearness.sub_(nearest[:, None]).exp_().mul_(mined)
            sums = shares.sum(1)
            figures[rows] = torch.where(counts[rows] > 0, softness * (sums.log() + nearest), 0)
            if ctx.weights is not None:
                shares.div_(sums.clamp_min_(TINY)[:, None])
        ctx.save_for_backward(anchors, candidates, figures)
        ctx.pool, ctx.softness = pool, softness
        ctx.mark_non_differentiable(counts)
        return figures, counts

    @staticmethod
    def backward(ctx: Any, of_figures: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        anchors, candidates, figures = ctx.saved_tensors
        gradients = _Gradients(anchors, candidates, ctx.needs_input_grad)
        if ctx.weights is not None:
            gradients.add(ALL, ctx.weights * -of_figures[:, None])
            return *gradients.both(), None, None
        for rows, distance, mined in _tiles(anchors, candidates, ctx.pool, own=math.inf):
            # The share of each candidate in its anchor's push; a pair that is not mined is farther than all that are.
            shares = distance.add_(figures[rows, None]).div_(-ctx.softness).exp_().mul_(mined)
            gradients.add(rows, shares.mul_(-of_figures[rows, None]))
        return *gradients.both(), None, None


def _room_for_all(anchors: Tensor, candidates: Tensor) -> Tensor | None:
    """Memory for a number of every pair, unless there are too many of them."""
    shape = len(anchors), len(candidates)
    return anchors.new_empty(shape) if math.prod(shape) <= MOST_KEPT else None


def _tiles(
    anchors: Tensor,
    candidates: Tensor,
    pool: Pool,
    *,
    own: float = 0.0,
    distances: Tensor | None = None,
    masks: Tensor | None = None,
) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Some rows of anchors at a time, their distances to all candidates, and 1 where these are mined, 0 elsewhere.

    Both are to be used up at once, except where memory for all of them is given. ``own`` stands in place of the
    distances of an image to itself.
    """
    count, width = len(anchors), len(candidates)
    height = min(count, max(1, MOST_DISTANCES // width))
    memory = [anchors.new_empty(height, width) if given is None else given for given in (distances, masks)]
    squares = candidates.square().sum(1)
    for start in range(0, count, height):
        rows = slice(start, min(start + height, count))
        distance, mined = (block[rows] if len(block) == count else block[: rows.stop - start] for block in memory)
        _distances(anchors[rows], candidates, squares, out=distance)
        torch.le(distance, pool.limit, out=mined)
        for first in range(0, width, pool.images):
            for matrix, value in ((distance, own), (mined, 0.0)):
                matrix[:, first : first + pool.images].diagonal(pool.diagonal + start).fill_(value)
        yield rows, distance, mined


class _Gradients:
    """Those of anchors and candidates, from weights of their squared distances, some rows at a time."""

    def __init__(self, anchors: Tensor, candidates: Tensor, wanted: tuple[bool, ...]) -> None:
        self.anchors, self.candidates = anchors, candidates
        self.of_anchors = torch.empty_like(anchors) if wanted[0] else None
        self.of_candidates = torch.zeros_like(candidates) if wanted[1] else None
        self.of_columns = candidates.new_zeros(len(candidates))

    def add(self, rows: slice, weights: Tensor) -> None:
        """The gradient of ``sum w |a - c|²`` is ``2 w (a - c)`` for a and its opposite for c; here halved."""
        if self.of_anchors is not None:
            own = weights.sum(1, keepdim=True) * self.anchors[rows]
            self.of_anchors[rows] = own.addmm_(weights, self.candidates, alpha=-1)
        if self.of_candidates is not None:
            self.of_candidates.addmm_(weights.T, self.anchors[rows], alpha=-1)
            self.of_columns += weights.sum(0)

    def both(self) -> tuple[Tensor | None, Tensor | None]:
        """Of anchors and of candidates, where wanted."""
        if self.of_anchors is not None:
            self.of_anchors *= 2
        if self.of_candidates is not None:
            self.of_candidates.addcmul_(self.of_columns[:, None], self.candidates).mul_(2)
        return self.of_anchors, self.of_candidates
