"""Losses of the other systems: softmax over similarities, and the regression of one direction on another.

Outputs are taken raw and made unit vectors here; what a memory holds is one already. Similarities are cosines, computed
in float32 whatever the networks computed in.
"""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from hardpair import distributed
from hardpair.precision import in_full_precision


@in_full_precision
def nt_xent(a: Tensor, b: Tensor, *, temperature: float) -> Tensor:
    """SimCLR: each of 2 N views must find its partner among the other 2 N - 1; mean over all, a and b (N, D).

    Where several processes share a batch, each has M of N images, and its views look among those of all.
    """
    a, b = normalize(a, dim=1), normalize(b, dim=1)  # (M, D)
    everyone = torch.cat([distributed.gather(a, gradient=True), distributed.gather(b, gradient=True)])  # (2N, D)
    own = distributed.rank() * len(a) + torch.arange(len(a), device=a.device)
    own = torch.cat([own, own + len(everyone) // 2])  # where this process's views are among them
    logits = torch.cat([a, b]) @ everyone.T / temperature  # (2M, 2N)
    logits = logits.scatter(1, own[:, None], -torch.inf)  # a view is no candidate for itself
    return cross_entropy(logits, own.roll(len(a)))


@in_full_precision
def info_nce(queries: Tensor, keys: Tensor, negatives: Tensor, *, temperature: float) -> Tensor:
    """MoCo: query i must find key i (both (N, D)) among negatives that all share, unit vectors (K, D)."""
    queries, keys = normalize(queries, dim=1), normalize(keys, dim=1)
    positive = (queries * keys).sum(1, keepdim=True)  # (N, 1)
    logits = torch.cat([positive, queries @ negatives.T], dim=1) / temperature  # (N, 1 + K)
    return cross_entropy(logits, torch.zeros(len(queries), dtype=torch.long, device=queries.device))


@in_full_precision
def find_own(queries: Tensor, bank: Tensor, rows: Tensor, sampled: Tensor, *, temperature: float) -> Tensor:
    """Instance discrimination: query i must find vector ``rows[i]`` of a bank of unit vectors (M, D).

    It is told from the vectors ``sampled`` (K,), or from the whole bank when none are.
    """
    if len(sampled):
        return info_nce(queries, bank[rows], bank[sampled], temperature=temperature)
    return cross_entropy(normalize(queries, dim=1) @ bank.T / temperature, rows)


@in_full_precision
def cosine_regression(predicted: Tensor, target: Tensor) -> Tensor:
    """BYOL: squared distance of unit vectors, ``2 - 2 cos``, mean over (N, D); no gradient into the target."""
    predicted, target = normalize(predicted, dim=1), normalize(target.detach(), dim=1)
    return (2 - 2 * (predicted * target).sum(1)).mean()
