"""The loss of hard negative pair mining: section 3 of the paper, equation by equation.

Eq. 2 and 3 are `normalise` and `dissimilarity`, Eq. 5 is `hard_negatives`, and `hnpm_loss` is Eq. 7, built of them.
docs/explanation/method.md discusses every choice. Large and shared batches have the same loss by another way of
computing it (large_batch.py).
"""

import inspect
import math
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from hardpair import distributed
from hardpair.losses import large_batch
from hardpair.precision import full_precision

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


def dissimilarity(u_prime: Tensor, u: Tensor, *, norm: Norm = "inf", reduce: Reduce = "sum") -> Tensor:
    """Eq. 3 for every pair: entry (i, j) is the distance of student output i and teacher output j, (N, M).

    Computed in float32 or better even under autocast: half precision cannot tell near pairs apart.
    """
    with full_precision(u.device):
        return squared_distances(_scaled(u_prime, norm, reduce), _scaled(u, norm, reduce))


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """All rows of a (N, D) to all rows of b (M, D), by one GEMM: (N, M)."""
    return torch.addmm(b.square().sum(1), a, b.T, alpha=-2).add_(a.square().sum(1)[:, None]).clamp_min_(0)


def hard_negatives(distance: Tensor, *, threshold: float = 1.0, nearest: bool = False) -> Tensor:
    """Eq. 5: which pairs are hard negatives, bool (N, M). A pair of one image (the diagonal) never is.

    With ``nearest``, of each row only the smallest distance.
    """
    mined = distance.detach() <= threshold
    mined.diagonal().fill_(False)
    return _only_nearest(distance, mined) if nearest else mined


def _only_nearest(distance: Tensor, mined: Tensor) -> Tensor:
    """Of each row, the mined pair of the smallest distance; all of them, where several are equally near."""
    among_mined = distance.detach().masked_fill(~mined, torch.inf)
    return mined & (among_mined == among_mined.amin(dim=1, keepdim=True))


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
    nearest: bool = False,
    softness: float = 0.0,
    positive_in_sum: bool = False,
) -> dict[str, Tensor]:
    """Eq. 7: ``alpha_pos * L1 + alpha_neg * L2`` of teacher outputs u and student outputs u_prime, both (N, D).

    L1 (Eq. 2) is the mean distance of the two outputs of one image; L2 (Eq. 4) is minus the mean log of the
    summed distances to the mined negatives. An anchor that mined nothing adds nothing to L2. With ``mine=False``
    every other image of the batch is a negative. With ``nearest`` an anchor keeps only the nearest of its negatives,
    as the paper's text has it beside Eq. 5. With ``softness``, L2 is `soft_negative_term` instead; its sum may have the
    positive pair too (``positive_in_sum``), as in InfoNCE.

    The defaults are the paper's. What works better on small images is in `hardpair recipes demo`: norm "l2",
    alpha_pos 1, alpha_neg 1, and a threshold near the distance of positive pairs.

    Returns the loss, its two parts, the share of pairs ``mined`` and the share of anchors left ``empty``, pairs and
    anchors being Eq. 5's. Where several processes share a batch, each gives its own rows.
    """
    _check_shapes(u, u_prime)
    if positive_in_sum and not softness:
        raise ValueError("hnpm_loss: positive_in_sum is for the soft form; give softness too")
    with full_precision(u.device):
        teacher, student = _scaled(u, norm, reduce), _scaled(u_prime, norm, reduce)  # (N, D)
        # A positive pair is nearly equal, where the GEMM's cancellation would hurt: subtract first.
        positive = mse_loss(teacher, student, reduction="sum") / len(u)
        limit = threshold if mine else math.inf
        if distributed.world_size() > 1 or len(u) ** 2 > large_batch.FROM_PAIRS:
            mining = large_batch.Mining(limit, nearest, softness, positive_in_sum, SMALLEST_SUM)
            negative, counts = large_batch.negative_term(student, teacher, mining)
        else:
            distance = squared_distances(student, teacher)  # (N, N)
            mined = hard_negatives(distance, threshold=limit, nearest=nearest)
            counts = mined.sum(1)
            if softness:
                among = squared_distances(teacher, teacher)
                negative = soft_negative_term(
                    distance, among, softness, threshold=limit, nearest=nearest, positive=positive_in_sum
                )
            else:
                negative = negative_term(distance, mined)
    candidates = max(distributed.world_size() * len(u) - 1, 1)  # of each anchor
    return {
        "loss": alpha_pos * positive + alpha_neg * negative,
        "positive": positive.detach(),
        "negative": negative.detach(),
        "mined": counts.float().mean() / candidates,
        "empty": (counts == 0).float().mean(),
    }


class HNPMLoss(nn.Module):
    """`hnpm_loss` as a module, for training loops of your own: ``loss = HNPMLoss(norm="l2")(u, u_prime)``.

    The settings are those of `hnpm_loss`. ``u`` are outputs of the network that learns and ``u_prime`` those of its
    moving average, without gradient, for the same images in the same order; both (N, D), on one device.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        inspect.signature(hnpm_loss).bind(None, None, **settings)  # TypeError where it has no such setting
        self.settings = settings

    def forward(self, u: Tensor, u_prime: Tensor) -> Tensor:
        """The loss, a scalar."""
        return hnpm_loss(u, u_prime, **self.settings)["loss"]

    def extra_repr(self) -> str:
        """The settings, where the module is printed."""
        return ", ".join(f"{name}={value!r}" for name, value in self.settings.items())


def negative_term(distance: Tensor, mined: Tensor) -> Tensor:
    """Eq. 4: minus the mean over anchors of ``log sum d`` over mined pairs; an anchor that mined nothing adds 0."""
    sums = (distance * mined).sum(1)
    return -torch.where(mined.any(1), sums.clamp_min(SMALLEST_SUM).log(), 0).mean()


def soft_negative_term(
    distance: Tensor,
    among_teachers: Tensor,
    softness: float,
    *,
    threshold: float = math.inf,
    nearest: bool = False,
    positive: bool = False,
) -> Tensor:
    """Beyond the paper: the mean over anchors of ``s log sum exp(-d / s)``, so that nearer negatives weigh more.

    Half of it has the anchors of Eq. 4, the student's outputs. In the other half the anchors are the teacher's
    outputs, and their candidates both the student's outputs and the teacher's own.
    """
    pair = torch.eye(len(distance), dtype=torch.bool, device=distance.device) & positive
    mined = hard_negatives(distance, threshold=threshold, nearest=nearest) | pair
    candidates = torch.cat([distance.T, among_teachers], dim=1)  # (N, 2N)
    of_teachers = torch.cat([hard_negatives(part, threshold=threshold) for part in candidates.chunk(2, dim=1)], dim=1)
    if nearest:
        of_teachers = _only_nearest(candidates, of_teachers)
    of_teachers[:, : len(pair)] |= pair
    ways = _log_sum(distance, mined, softness), _log_sum(candidates, of_teachers, softness)
    return (ways[0].mean() + ways[1].mean()) / 2


def _log_sum(distance: Tensor, mined: Tensor, softness: float) -> Tensor:
    """``s log sum exp(-d / s)`` over the mined pairs of each row, 0 where there are none: (N,)."""
    # Not minus infinity, whose gradient in a row without any pair is not a number.
    nearness = (distance / -softness).masked_fill(~mined, torch.finfo(distance.dtype).min)
    return torch.where(mined.any(1), softness * nearness.logsumexp(1), 0)


def _check_shapes(u: Tensor, u_prime: Tensor) -> None:
    if u.ndim != 2 or u.shape != u_prime.shape:
        raise ValueError(
            f"hnpm_loss: u is {tuple(u.shape)} and u_prime {tuple(u_prime.shape)}; both must be (N, D), one row per "
            "image, the teacher's outputs and the student's outputs of the same images"
        )


def _scaled(u: Tensor, norm: Norm, reduce: Reduce) -> Tensor:
    """Rows whose squared distances are those of Eq. 3, or their mean over the dimensions."""
    if reduce not in ("sum", "mean"):
        raise ValueError(f"reduce must be 'sum' or 'mean', not {reduce!r}")
    rows = normalise(u if u.dtype == torch.float64 else u.float(), norm)
    return rows if reduce == "sum" else rows / math.sqrt(u.shape[1])
