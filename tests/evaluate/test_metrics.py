"""Metrics against scikit-learn, and against slow references written from the definitions."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score, top_k_accuracy_score

from hardpair.evaluate.metrics import accuracies, average_precision_11, map_11, mean_per_class, top_k


@settings(max_examples=30)
@given(seed=st.integers(0, 9999), k=st.integers(1, 7))
def test_top_k_is_scikit_learns(seed, k):
    rng = np.random.default_rng(seed)
    scores, labels = rng.normal(size=(40, 6)), rng.integers(0, 6, 40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn warns that k ≥ classes is perfect, which is what we check
        expected = 100 * top_k_accuracy_score(labels, scores, k=k, labels=range(6))
    assert top_k(torch.tensor(scores), torch.tensor(labels), k) == pytest.approx(expected)


@pytest.mark.parametrize(("classes", "metrics"), [(6, {"top1"}), (9, {"top1"}), (10, {"top1", "top5"})])
def test_top_5_needs_ten_classes(classes, metrics):
    assert accuracies(torch.rand(20, classes), torch.arange(20) % classes).keys() == metrics


@settings(max_examples=30)
@given(seed=st.integers(0, 9999))
def test_mean_per_class_is_scikit_learns_balanced_accuracy(seed):
    rng = np.random.default_rng(seed)
    scores, labels = rng.normal(size=(50, 6)), np.minimum(rng.geometric(0.4, 50) - 1, 5)
    guesses = np.where(np.isin(scores.argmax(1), labels), scores.argmax(1), labels[0])  # it warns of unseen classes
    scores[np.arange(50), guesses] = scores.max(1) + 1
    expected = 100 * balanced_accuracy_score(labels, guesses)
    assert mean_per_class(torch.tensor(scores), torch.tensor(labels)) == pytest.approx(expected)


def slow_11_points(scores, present):
    """Walk down the ranking; at each recall level take the best precision from there on."""
    ranked = [p for _, p in sorted(zip(scores, present, strict=True), key=lambda pair: -pair[0])]
    points = []
    for rank in range(1, len(ranked) + 1):
        hits = sum(ranked[:rank])
        points.append((hits, hits / rank))
    total = sum(present)
    best = [max((p for hits, p in points if 10 * hits >= level * total), default=0.0) for level in range(11)]
    return sum(best) / 11


@settings(max_examples=50)
@given(seed=st.integers(0, 9999), share=st.floats(0.02, 0.9))
def test_average_precision_is_the_definition(seed, share):
    rng = np.random.default_rng(seed)
    scores, present = rng.permutation(60) / 60, rng.random(60) < share
    present[0] = True
    expected = slow_11_points(scores.tolist(), present.tolist())
    assert average_precision_11(torch.tensor(scores), torch.tensor(present)) == pytest.approx(expected)


def test_a_perfect_ranking_is_worth_100_and_the_reverse_little():
    scores, present = torch.arange(100.0), torch.arange(100) >= 90
    assert average_precision_11(scores, present) == 1
    assert average_precision_11(-scores, present) == pytest.approx(0.1)


def test_difficult_objects_are_ignored_for_their_class_alone():
    scores = torch.tensor([[3.0, 0.0], [2.0, 1.0], [1.0, 2.0], [0.0, 3.0]])
    signs = torch.tensor([[0, -1], [1, -1], [-1, 1], [-1, 0]])  # the first would be wrong in class 0 if it counted
    assert map_11(scores, signs) == 100
    assert map_11(scores, torch.where(signs == 0, -1, signs)) < 100


def test_a_class_without_positives_does_not_count():
    scores, signs = torch.tensor([[1.0, 5.0], [0.0, 2.0]]), torch.tensor([[1, -1], [-1, -1]])
    assert map_11(scores, signs) == 100
