"""Images that a classifier which never saw their label would call something else.

Five folds of logistic regression on the vectors give each image probabilities that its own label had no part in; copies
of a picture lie in one fold. A label is a likely error where another class is more probable than images of that class
usually are of it, the rule of confident learning (Northcutt et al. 2021).
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardpair.embeddings.embedding import Embedding
from hardpair.evaluate.logistic import predict, regression_path

FOLDS = 5
FEWEST = 5  # images of a class; smaller ones are not judged, and are nobody's better label
MOST = 20_000  # images that a regression learns from: more hardly change it, and cost time
PENALTIES = tuple(10.0 ** (power / 2) for power in range(0, -9, -1))  # of vectors whose numbers vary by 1
AT_ONCE = 65_536  # rows


class LabelErrors(NamedTuple):
    """What speaks for the label of each image."""

    score: NDArray[np.float32]  # (N,) from 0, certainly wrong, to 1; NaN where it was not judged
    suggested: NDArray[np.int64]  # (N,) the likeliest class; -1 where it was not judged
    likely: NDArray[np.int64]  # (K,) rows of likely errors, the likeliest first

    @staticmethod
    def none(count: int) -> "LabelErrors":
        """Where labels cannot be judged."""
        nobody = np.zeros(0, np.int64)
        return LabelErrors(np.full(count, np.nan, np.float32), np.full(count, -1, np.int64), nobody)


def label_errors(embedding: Embedding, group: NDArray[np.int64], *, seed: int = 0) -> LabelErrors | str:
    """Of all labelled images, or why they cannot be judged.

    Args:
        embedding: vectors and labels.
        group: (N,) a number that copies of a picture share.
        seed: of the folds.
    """
    count = np.bincount(embedding.labels[embedding.labels >= 0], minlength=len(embedding.classes))
    large = np.flatnonzero(count >= FEWEST)
    if len(large) < 2:
        return "no labels" if not count.sum() else f"fewer than two classes have {FEWEST} images"
    number = np.full(len(count) + 1, -1)
    number[large] = np.arange(len(large))
    rows = np.flatnonzero(number[embedding.labels] >= 0)
    labels = number[embedding.labels[rows]]
    probabilities = out_of_sample(_features(embedding, rows), labels, group[rows], seed=seed)
    score, suggested, likely = judge(probabilities, labels)
    scores, suggestions = np.full(len(embedding), np.nan, np.float32), np.full(len(embedding), -1, np.int64)
    scores[rows], suggestions[rows] = score, large[suggested]
    return LabelErrors(scores, suggestions, rows[likely])


def _features(embedding: Embedding, rows: NDArray[np.int64]) -> Tensor:
    """Unit vectors, centred, whose numbers vary by 1 on average."""
    parts = [embedding.unit_vectors(rows[at : at + AT_ONCE]) for at in range(0, len(rows), AT_ONCE)]
    features = torch.from_numpy(np.concatenate(parts))
    features -= features.mean(0)
    return features.div_(features.square().mean().sqrt().clamp_min(1e-12))


def out_of_sample(
    features: Tensor, labels: NDArray[np.int64], group: NDArray[np.int64], *, seed: int = 0
) -> NDArray[np.float32]:
    """Class probabilities (N, C) of each image by a regression on the other folds."""
    fold = _folds(labels, group, seed)
    classes = int(labels.max()) + 1
    targets = torch.from_numpy(labels)
    probabilities = torch.empty(len(labels), classes)
    penalties = list(PENALTIES)
    for number in range(FOLDS):
        held = torch.from_numpy(fold == number)
        if not bool(held.any()):
            continue
        learnt = _some(np.flatnonzero(fold != number), seed)
        weights = regression_path(features[learnt], targets[learnt], penalties, classes=classes)
        logits = [predict(features[held], weight) for weight in weights]
        if len(penalties) > 1:  # the first fold chooses the penalty, by the labels that it held out
            losses = [float(torch.nn.functional.cross_entropy(values, targets[held])) for values in logits]
            best = int(np.argmin(losses))
            penalties, logits = penalties[best : best + 1], logits[best : best + 1]
        probabilities[held] = logits[0].softmax(1)
    return probabilities.numpy()


def _folds(labels: NDArray[np.int64], group: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """(N,) each class spread evenly; copies of a picture go where the first of them is."""
    random = np.random.default_rng(seed)
    _, first, inverse = np.unique(group, return_index=True, return_inverse=True)
    order = random.permutation(len(first))
    order = order[np.argsort(labels[first][order], kind="stable")]
    fold = np.empty(len(first), np.int64)
    fold[order] = np.arange(len(first)) % FOLDS
    spread: NDArray[np.int64] = fold[inverse]
    return spread


def _some(rows: NDArray[np.int64], seed: int) -> Tensor:
    if len(rows) > MOST:
        rows = np.sort(np.random.default_rng(seed).permutation(rows)[:MOST])
    return torch.from_numpy(rows)


def judge(
    probabilities: NDArray[np.float32], labels: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    """Score, best other class, and rows of likely errors, from probabilities (N, C) out of sample."""
    every = np.arange(len(labels))
    own = probabilities[every, labels]
    others = probabilities.copy()
    others[every, labels] = -1
    other = others.argmax(axis=1)
    score = (own - others[every, other] + 1) / 2
    count = np.maximum(np.bincount(labels, minlength=probabilities.shape[1]), 1)
    usual = (
        np.bincount(labels, weights=own, minlength=probabilities.shape[1]) / count
    )  # (C,) as sure as it is of its own
    likely = np.flatnonzero((others >= usual).any(axis=1) & (score < 0.5))
    return score.astype(np.float32), other, likely[np.argsort(score[likely], kind="stable")]
