"""Losses: pure functions of tensors; each docstring names its equation."""

from hardpair.losses.contrastive import cosine_regression, find_own, info_nce, nt_xent
from hardpair.losses.hnpm import HNPMLoss, dissimilarity, hard_negatives, hnpm_loss, normalise

__all__ = [
    "HNPMLoss",
    "cosine_regression",
    "dissimilarity",
    "find_own",
    "hard_negatives",
    "hnpm_loss",
    "info_nce",
    "normalise",
    "nt_xent",
]
