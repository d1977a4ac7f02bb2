"""Losses: pure functions of tensors; each docstring names its equation."""

from hardpair.losses.hnpm import dissimilarity, hard_negatives, hnpm_loss, normalise

__all__ = ["dissimilarity", "hard_negatives", "hnpm_loss", "normalise"]
