"""The loss of hard negative pair mining, equation by equation (docs/method.md discusses every choice)."""

from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch
from torch import Tensor

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


def hard_negatives(distance: Tensor, *, threshold: float = 1.0) -> Tensor:
    """Eq. 5: which pairs are hard negatives, bool (N, M). A pair of one image (the diagonal) never is."""
    return (distance.detach() <= threshold).fill_diagonal_(False)


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
    """
    with _full_precision(u.device):
        teacher = normalise(_at_least_float32(u), norm)  # (N, D)
        student = normalise(_at_least_float32(u_prime), norm)  # (N, D)
        # A positive pair is nearly equal, where the GEMM's cancellation would hurt: subtract first.
        squares = (teacher - student).square()
        positive = (squares.sum(1) if reduce == "sum" else squares.mean(1)).mean()

        distance = _distances(student, teacher, reduce)  # (N, N): anchors are rows, candidates are columns
        mined = hard_negatives(distance, threshold=threshold if mine else float("inf"))  # (N, N)
        total = torch.where(mined, distance, 0).sum(1)  # (N,)
        found = mined.any(1)  # (N,)
        negative = -torch.where(found, total.clamp_min(SMALLEST_SUM).log(), 0).mean()

    pairs = max(mined.numel() - len(mined), 1)
    return {
        "loss": alpha_pos * positive + alpha_neg * negative,
        "positive": positive.detach(),
        "negative": negative.detach(),
        "mined": mined.sum() / pairs,
        "empty": 1 - found.float().mean(),
    }


def _at_least_float32(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()


def _full_precision(device: torch.device) -> AbstractContextManager[object]:
    """No autocast on this device; one that knows of none (meta, where only shapes are computed) needs nothing."""
    if torch.amp.is_autocast_available(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()
