"""Images whose label a classifier that never saw it finds improbable.

Five folds of logistic regression on the vectors, and the votes of the nearest neighbours, give each image class
probabilities in which its own label had no part; copies of a picture lie in one fold and do not vote for each other.
The score of a label is its probability: a label is a likely error if that is a tenth of what is usual for its class.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from hardpair.embeddings.embedding import Embedding
from hardpair.embeddings.graph import Graph
from hardpair.evaluate.logistic import predict, regression_path

FOLDS = 5
FEWEST = 5  # images of a class; smaller ones are not checked, and are nobody's better label
MOST = 20_000  # images that a regression learns from: more hardly change it, and cost time
PENALTIES = tuple(10.0 ** (power / 2) for power in range(0, -9, -1))  # of vectors whose numbers vary by 1
UNUSUAL = 0.1  # of the mean probability that a class's images have of it
VOTES, TEMPERATURE, PRIOR = (
    0.3,
    0.02,
    3.2,
)  # share of the neighbours; of their similarities; votes spread over all classes
AT_ONCE = 8192  # rows


class LabelErrors(NamedTuple):
    """What speaks for the label of each image."""

    score: NDArray[np.float32]  # (N,) probability of its label; NaN where it was not checked
    suggested: NDArray[np.int64]  # (N,) the likeliest other class; -1 where it was not checked
    likely: NDArray[np.int64]  # (K,) rows of likely errors, the likeliest first

    @staticmethod
    def none(count: int) -> "LabelErrors":
        """Where labels cannot be checked."""
        nobody = np.zeros(0, np.int64)
        return LabelErrors(np.full(count, np.nan, np.float32), np.full(count, -1, np.int64), nobody)


def label_errors(embedding: Embedding, graph: Graph, group: NDArray[np.int64], *, seed: int = 0) -> LabelErrors | str:
    """Of all labelled images, or why they cannot be checked.

    Args:
        embedding: vectors and labels.
        graph: the nearest neighbours.
        group: (N,) a number that copies of a picture share.
        seed: of the folds.
    """
    count = np.bincount(embedding.labels[embedding.labels >= 0], minlength=len(embedding.classes))
    large = np.flatnonzero(count >= FEWEST)
    if len(large) < 2:
        return "the images have none" if not count.sum() else f"fewer than two classes have {FEWEST} images"
    number = np.full(len(count) + 1, -1)
    number[large] = np.arange(len(large))
    labels = number[embedding.labels]  # (N,) -1 for those that are not checked
    found = LabelErrors.none(len(embedding))
    for rows, probabilities in out_of_sample(embedding, graph, labels, group, seed=seed):
        every = torch.arange(len(rows))
        own = torch.from_numpy(labels[rows])
        found.score[rows] = probabilities[every, own].numpy()
        probabilities[every, own] = -1
        found.suggested[rows] = large[probabilities.argmax(1).numpy()]
    return found._replace(likely=unusual(found.score, labels))


def unusual(score: NDArray[np.float32], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows whose label is far less probable than the same label usually is, the least probable first."""
    checked = np.flatnonzero(labels >= 0)
    total = np.bincount(labels[checked], weights=score[checked])
    usual = total / np.maximum(np.bincount(labels[checked]), 1)  # (C,)
    rows = checked[score[checked] < UNUSUAL * usual[labels[checked]]]
    return rows[np.argsort(score[rows], kind="stable")]


def out_of_sample(
    embedding: Embedding, graph: Graph, labels: NDArray[np.int64], group: NDArray[np.int64], *, seed: int = 0
) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
    """Rows, and their class probabilities (n, C), in parts; ``labels`` are -1 for images to leave out."""
    scale = Scale(embedding)
    classes, penalties = int(labels.max()) + 1, list(PENALTIES)
    fold = _folds(labels, group, seed)
    for number in range(FOLDS):
        held = np.flatnonzero(fold == number)
        learnt = _some(np.flatnonzero((fold != number) & (fold >= 0)), seed)
        targets = torch.from_numpy(labels[learnt])
        weights = regression_path(scale.features(learnt), targets, penalties, classes=classes)
        if len(penalties) > 1 and len(held):  # the first fold chooses the penalty, by labels that it held out
            best = _best(scale, weights, held[:MOST], labels)
            penalties, weights = penalties[best : best + 1], weights[best : best + 1]
        for start in range(0, len(held), AT_ONCE):
            rows = held[start : start + AT_ONCE]
            model = predict(scale.features(rows), weights[0]).softmax(1)
            yield rows, torch.lerp(model, votes(graph, rows, labels, group, classes), VOTES)


def votes(
    graph: Graph, rows: NDArray[np.int64], labels: NDArray[np.int64], group: NDArray[np.int64], classes: int
) -> Tensor:
    """Class probabilities (n, C) by the neighbours of each, nearer ones with more weight."""
    near = graph.rows[rows]
    similarity = torch.from_numpy(graph.similarity[rows])
    counted = torch.from_numpy((labels[near] >= 0) & (group[near] != group[rows, None]))
    weight = ((similarity - 1) / TEMPERATURE).masked_fill(~counted, -torch.inf)
    weight = (weight - weight.amax(1, keepdim=True).clamp_min(-1e9)).exp() if near.shape[1] else weight
    found = torch.full((len(rows), classes), PRIOR / classes)
    found.scatter_add_(1, torch.from_numpy(labels[near].clip(0)), weight)
    return found / found.sum(1, keepdim=True)


class Scale:
    """Unit vectors, centred, whose numbers vary by 1 on average, so that one range of penalties fits all encoders."""

    def __init__(self, embedding: Embedding) -> None:
        self.embedding = embedding
        rows = np.unique(np.linspace(0, len(embedding) - 1, min(len(embedding), MOST)).astype(np.int64))
        some = torch.from_numpy(embedding.unit_vectors(rows))
        self.mean = some.mean(0)
        self.spread = (some - self.mean).square().mean().sqrt().clamp_min(1e-6)

    def features(self, rows: NDArray[np.int64]) -> Tensor:
        """(n, D)."""
        unit = torch.from_numpy(self.embedding.unit_vectors(rows))
        return unit.sub_(self.mean).div_(self.spread)


def _best(scale: Scale, weights: list[Tensor], held: NDArray[np.int64], labels: NDArray[np.int64]) -> int:
    features, targets = scale.features(held), torch.from_numpy(labels[held])
    return int(np.argmin([float(cross_entropy(predict(features, weight), targets)) for weight in weights]))


def _folds(labels: NDArray[np.int64], group: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """(N,) each class spread evenly; copies go where the first of them is; -1 for images to leave out."""
    random = np.random.default_rng(seed)
    rows = np.flatnonzero(labels >= 0)
    _, first, inverse = np.unique(group[rows], return_index=True, return_inverse=True)
    order = random.permutation(len(first))
    order = order[np.argsort(labels[rows][first][order], kind="stable")]
    spread = np.empty(len(first), np.int64)
    spread[order] = np.arange(len(first)) % FOLDS
    fold = np.full(len(labels), -1)
    fold[rows] = spread[inverse]
    return fold


def _some(rows: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    if len(rows) <= MOST:
        return rows
    return np.sort(np.random.default_rng(seed).permutation(rows)[:MOST])
