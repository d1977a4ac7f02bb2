"""The soft push of one process, both ways at once: what small batches spend on it are operations, not arithmetic."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from hardpair.losses.pairs import TINY, distances


def push_both_ways(student: Tensor, teacher: Tensor, limit: float, softness: float) -> tuple[Tensor, Tensor]:
    """The mean of ``s log sum exp(-d / s)`` over the anchors of both networks, and the students' counts, (N,).

    Students take no gradient. Every distance is made once: a student's to a teacher is a teacher's to a student. It all
    is in memory at once; `pairs.log_sum_mined` does the same in parts, and where several processes share a batch.
    """
    value, counts = _SoftPush.apply(student, teacher, limit, softness)
    return value, counts


class _SoftPush(Function):
    @staticmethod
    def forward(ctx: Any, student: Tensor, teacher: Tensor, limit: float, softness: float) -> tuple[Tensor, Tensor]:
        count, both = len(teacher), torch.cat([student, teacher])
        distance = distances(teacher, both)  # (N, 2 N)
        for of_one_network in distance.split(count, dim=1):
            of_one_network.fill_diagonal_(math.inf)  # pairs of one image are not mined
        mined = (distance <= min(limit, torch.finfo(distance.dtype).max)).to(distance.dtype)
        nearness = distance.div_(-softness)
        of_students, shares_of_students = _log_sum(nearness[:, :count], mined[:, :count], axis=0)
        of_teachers, shares = _log_sum(nearness, mined, axis=1)
        if ctx.needs_input_grad[1]:
            # The gradient is made here, where the shares are: each candidate's in its anchor's push, whoever is the
            # anchor. Two teachers are anchor and candidate both ways.
            shares[:, :count] += shares_of_students
            shares[:, count:] += shares[:, count:].T.clone()
            ctx.gradient = (shares.sum(1, keepdim=True) * teacher).addmm_(shares, both, beta=-1).div_(count)
        counts = mined[:, :count].sum(0)
        ctx.mark_non_differentiable(counts)
        return (of_students.mean() + of_teachers.mean()) * (softness / 2), counts

    @staticmethod
    def backward(ctx: Any, of_value: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        return None, of_value * ctx.gradient, None, None


def _log_sum(nearness: Tensor, mined: Tensor, *, axis: int) -> tuple[Tensor, Tensor]:
    """Of each anchor, ``log sum exp`` over mined pairs, 0 where there are none; and each pair's share of the sum."""
    nearest = nearness.amax(axis, keepdim=True).clamp_min_(torch.finfo(nearness.dtype).min)  # a lone image has no other
    shares = (nearness - nearest).exp_().mul_(mined)
    sums = shares.sum(axis, keepdim=True)
    # The nearest pair adds 1 to its sum, so that a sum of nothing is 0 and all others are at least 1.
    return torch.where(sums > 0, sums.log() + nearest, 0), shares.div_(sums.clamp_min(TINY))
