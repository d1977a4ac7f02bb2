"""Metrics, in per cent."""

import torch
from torch import Tensor

RECALLS = 11  # levels 0, .1 … 1 of Pascal VOC's average precision
CLASSES_FOR_TOP_5 = 10  # with fewer, top-5 says little


def top_k(scores: Tensor, labels: Tensor, k: int) -> float:
    """Share of rows of (N, C) scores whose label is among the k highest; with k ≥ C all are."""
    best = scores.topk(min(k, scores.shape[1]), dim=1).indices
    return 100 * float((best == labels[:, None]).any(dim=1).double().mean())


def top_1(scores: Tensor, labels: Tensor) -> float:
    """Share of rows whose highest score is the label's."""
    return top_k(scores, labels, 1)


def accuracies(scores: Tensor, labels: Tensor) -> dict[str, float]:
    """Top-1, and top-5 if there are enough classes."""
    top_1_alone = {"top1": top_1(scores, labels)}
    return top_1_alone if scores.shape[1] < CLASSES_FOR_TOP_5 else {**top_1_alone, "top5": top_k(scores, labels, 5)}


def mean_per_class(scores: Tensor, labels: Tensor) -> float:
    """Top-1 of each class that occurs, averaged: a rare class counts as much as a frequent one."""
    right = (scores.argmax(1) == labels).double()
    total, hits = right.new_zeros(2, scores.shape[1])
    total.index_add_(0, labels, torch.ones_like(right))
    hits.index_add_(0, labels, right)
    return 100 * float((hits[total > 0] / total[total > 0]).mean())


def map_11(scores: Tensor, signs: Tensor) -> float:
    """Pascal VOC 2007's mean average precision. Signs (N, C) are 1, -1, or 0 for what is not counted (difficult)."""
    pairs = zip(scores.T, signs.T, strict=True)
    values = [average_precision_11(score[sign != 0], sign[sign != 0] > 0) for score, sign in pairs if (sign > 0).any()]
    return 100 * sum(values) / len(values)


def average_precision_11(scores: Tensor, present: Tensor) -> float:
    """Mean over recalls of 0, .1 … 1 of the best precision at that recall or a higher one, as a share."""
    hits = present[scores.argsort(descending=True, stable=True)].double().cumsum(0)
    precision = hits / torch.arange(1, len(hits) + 1, device=hits.device)
    recall = hits / hits[-1]
    levels = torch.arange(RECALLS, dtype=torch.float64, device=hits.device) / (RECALLS - 1)
    reached = recall[None, :] >= levels[:, None] - 1e-9  # (11, N)
    return float(torch.where(reached, precision[None, :], 0.0).amax(1).mean())


METRICS = {"top1": top_1, "mean_per_class": mean_per_class, "map11": map_11}
