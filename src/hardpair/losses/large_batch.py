"""The negative terms of HNPM (Eq. 3 to 5) for large batches, and for batches that several processes share.

The same values and gradients as the plain form in hnpm.py, without the whole matrix of distances: some rows of it at a
time, in memory that is used again, and made once more for the gradient. benchmarks/large_batch.py measures it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from hardpair import distributed

FROM_PAIRS = 2**18
"""With more pairs than this, a batch of 512, tiles are faster than whole matrices, 1,024 outputs 2.3 times."""
TILE_PAIRS = 2**23
"""Pairs that are compared at a time. More are no faster; with fewer, the gradients of all candidates are gone through
more often."""


@dataclass(frozen=True)
class Mining:
    """The settings of `hnpm_loss` that decide the negative term."""

    limit: float  # the largest distance of a hard negative
    nearest: bool
    softness: float
    positive: bool  # in the soft sum
    smallest_sum: float


def negative_term(student: Tensor, teacher: Tensor, mining: Mining) -> tuple[Tensor, Tensor]:
    """Eq. 4, or its soft form, and how many negatives each anchor mined.

    Each process gives its own rows (M, D) of the N in the batch.
    """
    return (_soft_term if mining.softness else _term)(student, teacher, mining)


def _term(student: Tensor, teacher: Tensor, mining: Mining) -> tuple[Tensor, Tensor]:
    """Eq. 4, and the counts of all anchors, (N,).

    Students are gathered, every process measures its own teachers against all of them, and the sums are all-reduced.
    The gradient needs no more than that, since students carry none; where they do (an ablation), it flows back through
    the gathering.
    """
    everyone = distributed.gather(student, gradient=student.requires_grad)  # (N, D)
    pool = Pool(mining.limit, diagonal=-distributed.rank() * len(teacher), images=len(teacher))
    if mining.nearest:  # of the candidates of all processes
        own = smallest(everyone.detach(), teacher.detach(), pool)
        pool = replace(pool, limit=distributed.gather(own[None]).amin(0).clamp_max(mining.limit))
    own_sum, own_count = sum_mined(everyone, teacher, pool)
    sums, counts = distributed.all_reduce(torch.stack([own_sum, own_count]))
    # The candidates of other processes count in the value; only those of this one can carry a gradient here.
    sums = own_sum + (sums - own_sum.detach())
    term = -torch.where(counts > 0, sums.clamp_min(mining.smallest_sum).log(), 0).mean()
    return distributed.undo_ddp_mean(term), counts


def _soft_term(student: Tensor, teacher: Tensor, mining: Mining) -> tuple[Tensor, Tensor]:
    """The soft form, and the counts of this process's own anchors, (M,)."""
    students = distributed.gather(student, gradient=student.requires_grad)  # (N, D)
    teachers = distributed.gather(teacher, gradient=True)  # (N, D)
    first = distributed.rank() * len(teacher)
    pool = Pool(mining.limit, diagonal=first, images=len(teachers), positive=mining.positive)
    ways = []
    for anchors, candidates in ((student, teachers), (teacher, torch.cat([students, teachers]))):
        chosen = pool
        if mining.nearest:
            limit = smallest(anchors.detach(), candidates.detach(), pool).clamp_max(mining.limit)
            chosen = replace(pool, limit=limit)
        ways.append(log_sum_mined(anchors, candidates, chosen, mining.softness))
    return (ways[0][0].mean() + ways[1][0].mean()) / 2, ways[0][1]


@dataclass(frozen=True)
class Pool:
    """Which pairs of anchors and candidates are mined."""

    limit: float | Tensor  # the largest distance that is, of all anchors or of each, (N,)
    diagonal: int  # the first anchor's own image among the candidates; pairs of one image are not mined
    images: int  # how many there are; candidates are one output of each image, or one of each network
    positive: bool = False  # but an image's output of the other network, the first candidates, counts in the sum

    def limit_of(self, rows: slice) -> float | Tensor:
        """Of some anchors."""
        return self.limit[rows, None] if isinstance(self.limit, Tensor) else self.limit


@torch.no_grad()
def smallest(anchors: Tensor, candidates: Tensor, pool: Pool) -> Tensor:
    """The smallest distance of each anchor to another image, (N,)."""
    negatives = replace(pool, positive=False)
    tiles = _tiles(anchors, candidates, negatives, own=math.inf)
    return torch.cat([distance.amin(1) for _, distance, _ in tiles])


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
        for rows, distance, mined in _tiles(anchors, candidates, pool):
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
        for rows, _distance, mined in _tiles(anchors, candidates, ctx.pool):
            gradients.add(rows, mined.mul_(of_figures[rows, None]))
        return *gradients.both(), None


class _LogSum(Function):
    @staticmethod
    def forward(ctx: Any, anchors: Tensor, candidates: Tensor, pool: Pool, softness: float) -> tuple[Tensor, Tensor]:
        figures, counts = anchors.new_empty(2, len(anchors)).unbind()
        for rows, distance, mined in _tiles(anchors, candidates, pool, own=math.inf):
            counts[rows] = mined.sum(1) - int(pool.positive)
            nearness = distance.div_(-softness)
            if pool.positive:  # it may be farther than a pair that is not mined
                nearness.masked_fill_(mined == 0, -torch.inf)
            nearest = nearness.amax(1).clamp_min_(torch.finfo(nearness.dtype).min)  # a lone image has no other
            sums = nearness.sub_(nearest[:, None]).exp_().mul_(mined).sum(1)
            figures[rows] = torch.where(sums > 0, softness * (sums.log() + nearest), 0)
        ctx.save_for_backward(anchors, candidates, figures)
        ctx.pool, ctx.softness = pool, softness
        ctx.mark_non_differentiable(counts)
        return figures, counts

    @staticmethod
    def backward(ctx: Any, of_figures: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        anchors, candidates, figures = ctx.saved_tensors
        gradients = _Gradients(anchors, candidates, ctx.needs_input_grad)
        for rows, distance, mined in _tiles(anchors, candidates, ctx.pool, own=math.inf):
            # The softmax over mined candidates; one that is not mined is farther, but for positives.
            shares = distance.add_(figures[rows, None]).div_(-ctx.softness).clamp_max_(0).exp_().mul_(mined)
            gradients.add(rows, shares.mul_(-of_figures[rows, None]))
        return *gradients.both(), None, None


def _tiles(
    anchors: Tensor, candidates: Tensor, pool: Pool, *, own: float = 0.0
) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Some rows of anchors at a time, their distances to all candidates, and 1 where these are mined, 0 elsewhere.

    Both lie in memory that the next tile overwrites. ``own`` stands in place of the distances of an image to itself.
    """
    count, width = len(anchors), len(candidates)
    height = min(count, max(1, TILE_PAIRS // width))
    memory = anchors.new_empty(2, height, width)
    squares = candidates.square().sum(1)
    for start in range(0, count, height):
        rows = slice(start, min(start + height, count))
        distance, mined = memory[:, : rows.stop - start]
        some = anchors[rows]
        torch.addmm(squares, some, candidates.T, alpha=-2, out=distance)
        distance.add_(some.square().sum(1)[:, None]).clamp_min_(0)
        torch.le(distance, pool.limit_of(rows), out=mined)  # Eq. 5
        for first in range(0, width, pool.images):
            blocks = (matrix[:, first : first + pool.images] for matrix in (distance, mined))
            own_distance, own_mined = (block.diagonal(pool.diagonal + start) for block in blocks)
            if pool.positive and first == 0:
                own_mined.fill_(1.0)
            else:
                own_distance.fill_(own)
                own_mined.fill_(0.0)
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
