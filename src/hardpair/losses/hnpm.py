"""The loss of hard negative pair mining, equation by equation (docs/method.md discusses every choice)."""

from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from hardpair import processes

Norm = Literal["inf", "l2"]
Reduce = Literal["sum", "mean"]

SMALLEST_SUM = 1e-6
"""Sums of distances below this count as this. It is what float32 can resolve in a distance made by a GEMM; at
distance 0 the gradient of d is 0 while that of log d is infinite, so without it identical images would give NaN."""

MOST_DISTANCES = 2**24
"""Beyond so many pairs the distances are made, used and forgotten in parts, and made again for the gradient."""


def normalise(u: Tensor, norm: Norm = "inf") -> Tensor:
    """Divide each row by its norm: the fraction inside Eq. 2. A zero row has no direction and stays zero."""
    if norm == "inf":
        length = u.abs().amax(dim=1, keepdim=True)
    elif norm == "l2":
        length = torch.linalg.vector_norm(u, dim=1, keepdim=True)
    else:
        raise ValueError(f"norm must be 'inf' or 'l2', not {norm!r}")
    # Dividing by one rather than by a tiny number keeps the gradient of a zero row of ordinary size.
    return u / torch.where(length > torch.finfo(u.dtype).tiny, length, torch.ones_like(length))


def _check_reduce(reduce: Reduce) -> None:
    if reduce not in ("sum", "mean"):
        raise ValueError(f"reduce must be 'sum' or 'mean', not {reduce!r}")


def _distances(a: Tensor, b: Tensor, reduce: Reduce) -> Tensor:
    """Squared distances of all rows of a (N, D) to all rows of b (M, D), by one GEMM: (N, M)."""
    _check_reduce(reduce)
    squares = a.square().sum(1)[:, None] + b.square().sum(1)[None, :]
    distance = torch.addmm(squares, a, b.T, alpha=-2).clamp_min(0)
    return distance / a.shape[1] if reduce == "mean" else distance


def dissimilarity(u_prime: Tensor, u: Tensor, *, norm: Norm = "inf", reduce: Reduce = "sum") -> Tensor:
    """Eq. 3 for every pair: entry (i, j) is the distance of student output i and teacher output j, (N, M).

    Computed in float32 or better even under autocast: half precision cannot tell near pairs apart.
    """
    with _full_precision(u.device):
        return _distances(normalise(_at_least_float32(u_prime), norm), normalise(_at_least_float32(u), norm), reduce)


def hard_negatives(distance: Tensor, *, threshold: float = 1.0, diagonal: int = 0) -> Tensor:
    """Eq. 5: which pairs are hard negatives, bool (N, M). A pair of one image (the diagonal) never is.

    Of a part of a larger matrix, ``diagonal`` says how far above its corner the larger one's diagonal begins.
    """
    mined = distance.detach() <= threshold
    mined.diagonal(diagonal).fill_(False)
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
) -> dict[str, Tensor]:
    """Eq. 7: ``alpha_pos * L1 + alpha_neg * L2`` of teacher outputs u and student outputs u_prime, both (N, D).

    L1 (Eq. 2) is the mean distance of the two outputs of one image; L2 (Eq. 4) is minus the mean log of the
    summed distances to the mined negatives. An anchor that mined nothing adds nothing to L2. With ``mine=False``
    every other image of the batch is a negative. Returns the loss, its two parts, the share of pairs ``mined``
    and the share of anchors left ``empty``.

    Where several processes share a batch, each gives its own rows: students are gathered, every process measures its
    own teachers against all of them, and the sums are added up. The gradient needs no more than that, since students
    carry none; where they do (an ablation), it flows back through the gathering.
    """
    with _full_precision(u.device):
        teacher = normalise(_at_least_float32(u), norm)  # (N, D)
        student = normalise(_at_least_float32(u_prime), norm)  # (N, D)
        # A positive pair is nearly equal, where the GEMM's cancellation would hurt: subtract first.
        squares = (teacher - student).square()
        positive = (squares.sum(1) if reduce == "sum" else squares.mean(1)).mean()

        everyone = processes.gather(student, gradient=student.requires_grad)  # (N, D), M of them from this process
        own_sum, own_count = _mined_sums(everyone, teacher, threshold if mine else float("inf"), reduce)  # (N,) each
        sums, counts = processes.total(torch.stack([own_sum, own_count]))
        found = counts > 0
        # The candidates of other processes count in the value; only those of this one can carry a gradient here.
        sums = own_sum + (sums - own_sum.detach())
        negative = processes.as_part_of_sum(-torch.where(found, sums.clamp_min(SMALLEST_SUM).log(), 0).mean())

    pairs = max(len(everyone) * (len(everyone) - 1), 1)
    return {
        "loss": alpha_pos * positive + alpha_neg * negative,
        "positive": positive.detach(),
        "negative": negative.detach(),
        "mined": counts.sum() / pairs,
        "empty": 1 - found.float().mean(),
    }


def _mined_sums(student: Tensor, teacher: Tensor, threshold: float, reduce: Reduce) -> tuple[Tensor, Tensor]:
    """Of each anchor (N, D) among these candidates (M, D): the sum of mined distances, and how many; (N,) each."""
    first = processes.place() * len(teacher)  # the anchor that is the first candidate's own image
    if len(student) * len(teacher) <= MOST_DISTANCES:
        return _sums_of_part(student, teacher, -first, threshold, reduce)
    parts, start = [], 0
    for anchors in student.split(max(1, MOST_DISTANCES // len(teacher))):
        parts.append(
            checkpoint(
                _sums_of_part,
                anchors,
                teacher,
                start - first,
                threshold,
                reduce,
                use_reentrant=False,
                preserve_rng_state=False,
            )
        )
        start += len(anchors)
    sums, counts = zip(*parts, strict=True)
    return torch.cat(sums), torch.cat(counts)


def _sums_of_part(
    anchors: Tensor, candidates: Tensor, diagonal: int, threshold: float, reduce: Reduce
) -> tuple[Tensor, Tensor]:
    distance = _distances(anchors, candidates, reduce)  # anchors are rows, candidates are columns
    mined = hard_negatives(distance, threshold=threshold, diagonal=diagonal)
    return torch.where(mined, distance, 0).sum(1), mined.sum(1).to(distance.dtype)


def _at_least_float32(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()


def _full_precision(device: torch.device) -> AbstractContextManager[object]:
    """No autocast on this device; one that knows of none (meta, where only shapes are computed) needs nothing."""
    if torch.amp.is_autocast_available(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()
