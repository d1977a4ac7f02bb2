"""Metrics, in per cent."""

from torch import Tensor


def top_k(scores: Tensor, labels: Tensor, k: int) -> float:
    """Share of rows of (N, C) scores whose label is among the k highest; with k ≥ C all are."""
    best = scores.topk(min(k, scores.shape[1]), dim=1).indices
    return 100 * float((best == labels[:, None]).any(dim=1).double().mean())


def accuracies(scores: Tensor, labels: Tensor) -> dict[str, float]:
    """Top-1 and top-5."""
    return {"top1": top_k(scores, labels, 1), "top5": top_k(scores, labels, 5)}
