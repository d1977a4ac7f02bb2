"""The loss of hard negative pair mining, equation by equation (docs/method.md discusses every choice)."""

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from hardpair import processes
from hardpair.losses import pairs
from hardpair.losses.pairs import Pool, distances, log_sum_mined, sum_mined
from hardpair.losses.soft import push_both_ways

Norm = Literal["inf", "l2"]
Reduce = Literal["sum", "mean"]

SMALLEST_SUM = 1e-6
"""Sums of distances below this count as this. It is what float32 can resolve in a distance made by a GEMM; at
distance 0 the gradient of d is 0 while that of log d is infinite, so without it identical images would give NaN."""


def normalise(u: Tensor, norm: Norm = "inf") -> Tensor:
    """Divide each row by its norm: the fraction inside Eq. 2. A zero row has no direction and stays zero."""
    if norm == "inf":
        length = u.abs().amax(dim=1, keepdim=True)
    elif norm == "l2":
        length = torch.linalg.vector_norm(u, dim=1, keepdim=True)
    else:
        raise ValueError(f"norm must be 'inf' or 'l2', not {norm!r}")
    # Dividing by one rather than by a tiny number keeps the gradient of a zero row of ordinary size.
    return u / (length + (length <= torch.finfo(u.dtype).tiny))


def _scaled(u: Tensor, norm: Norm, reduce: Reduce) -> Tensor:
    """Rows whose squared distances are those of Eq. 3, or their mean over the dimensions."""
    if reduce not in ("sum", "mean"):
        raise ValueError(f"reduce must be 'sum' or 'mean', not {reduce!r}")
    rows = normalise(_at_least_float32(u), norm)
    return rows if reduce == "sum" else rows / math.sqrt(u.shape[1])


def dissimilarity(u_prime: Tensor, u: Tensor, *, norm: Norm = "inf", reduce: Reduce = "sum") -> Tensor:
    """Eq. 3 for every pair: entry (i, j) is the distance of student output i and teacher output j, (N, M).

    Computed in float32 or better even under autocast: half precision cannot tell near pairs apart.
    """
    with _full_precision(u.device):
        return distances(_scaled(u_prime, norm, reduce), _scaled(u, norm, reduce))


def hard_negatives(distance: Tensor, *, threshold: float = 1.0) -> Tensor:
    """Eq. 5: which pairs are hard negatives, bool (N, M). A pair of one image (the diagonal) never is."""
    mined = distance.detach() <= threshold
    mined.diagonal().fill_(False)
    return mined


def hnpm_loss(
    u: Tensor,
    u_prime: Tensor,
    *,
    alpha_pos: float = 0.8,
    alpha_neg: float = 0.1,
    threshold: float = 1.0,
    norm: Norm = "inf",
    reduce: Reduce = "sum",
    mine: bool = True,
    softness: float = 0.0,
) -> dict[str, Tensor]:
    """Eq. 7: ``alpha_pos * L1 + alpha_neg * L2`` of teacher outputs u and student outputs u_prime, both (N, D).

    L1 (Eq. 2) is the mean distance of the two outputs of one image; L2 (Eq. 4) is minus the mean log of the
    summed distances to the mined negatives. An anchor that mined nothing adds nothing to L2. With ``mine=False``
    every other image of the batch is a negative. With ``softness`` L2 is `_soft_push` instead. Returns the loss, its
    two parts, the share of pairs ``mined`` and the share of anchors left ``empty``, pairs and anchors being Eq. 5's.

    Where several processes share a batch, each gives its own rows.
    """
    with _full_precision(u.device):
        teacher = _scaled(u, norm, reduce)  # (M, D): N of them in all processes together
        student = _scaled(u_prime, norm, reduce)  # (M, D)
        # A positive pair is nearly equal, where the GEMM's cancellation would hurt: subtract first.
        positive = mse_loss(teacher, student, reduction="sum") / len(u)
        limit = threshold if mine else math.inf
        if softness:
            negative, counts = _soft_push(student, teacher, limit, softness)
        else:
            negative, counts = _push(student, teacher, limit)

    others = max(processes.count() * len(u) - 1, 1)  # of an anchor
    return {
        "loss": alpha_pos * positive + alpha_neg * negative,
        "positive": positive.detach(),
        "negative": negative.detach(),
        "mined": counts.mean() / others,
        "empty": (counts == 0).to(counts.dtype).mean(),
    }


def _push(student: Tensor, teacher: Tensor, limit: float) -> tuple[Tensor, Tensor]:
    """Eq. 4, and how many negatives each anchor mined (N,). An anchor is a student's output, a candidate a teacher's.

    Students are gathered, every process measures its own teachers against all of them, and the sums are added up. The
    gradient needs no more than that, since students carry none; where they do (an ablation), it flows back through
    the gathering.
    """
    everyone = processes.gather(student, gradient=student.requires_grad)  # (N, D)
    pool = Pool(limit, diagonal=-processes.place() * len(teacher), images=len(teacher))
    own_sum, own_count = sum_mined(everyone, teacher, pool)
    sums, counts = processes.total(torch.stack([own_sum, own_count]))
    # The candidates of other processes count in the value; only those of this one can carry a gradient here.
    sums = own_sum + (sums - own_sum.detach())
    return processes.as_part_of_sum(-torch.where(counts > 0, sums.clamp_min(SMALLEST_SUM).log(), 0).mean()), counts


def _soft_push(student: Tensor, teacher: Tensor, limit: float, softness: float) -> tuple[Tensor, Tensor]:
    """Beyond the paper, L2: mean of ``s log sum exp(-d / s)`` over anchors; the nearer a negative, the harder pushed.

    Half of it has the anchors of Eq. 4. In the other half the anchors are the teacher's outputs, and their candidates
    both the student's outputs and the teacher's own. The counts are those of the first half, (M,).
    """
    alone = processes.count() == 1 and not student.requires_grad
    if alone and 2 * len(teacher) ** 2 <= pairs.MOST_KEPT:
        return push_both_ways(student, teacher, limit, softness)
    students = processes.gather(student, gradient=student.requires_grad)  # (N, D)
    teachers = processes.gather(teacher, gradient=True)  # (N, D)
    pool = Pool(limit, diagonal=processes.place() * len(teacher), images=len(teachers))
    of_students, counts = log_sum_mined(student, teachers, pool, softness)
    of_teachers, _ = log_sum_mined(teacher, torch.cat([students, teachers]), pool, softness)
    return (of_students.mean() + of_teachers.mean()) / 2, counts


def _at_least_float32(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()


def _full_precision(device: torch.device) -> AbstractContextManager[object]:
    """No autocast on this device; one that knows of none (meta, where only shapes are computed) needs nothing."""
    if torch.amp.is_autocast_available(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()
