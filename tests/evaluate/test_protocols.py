"""knn and linear against slow references and scikit-learn."""

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import top_k_accuracy_score

from hardpair.errors import UserError
from hardpair.evaluate import knn, linear
from hardpair.evaluate.knn import vote
from hardpair.evaluate.linear import Standardise
from hardpair.evaluate.logistic import predict, regression_path
from hardpair.evaluate.metrics import top_k


def clusters(count: int, classes: int = 4, width: int = 6, seed: int = 0, noise: float = 1.5):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % classes
    centres = torch.randn(classes, width, generator=torch.Generator().manual_seed(99))
    return centres[labels] + noise * torch.randn(count, width, generator=generator), labels


def slow_votes(bank, labels, queries, k, temperature):
    votes = []
    for query in queries.tolist():
        similar = []
        for row, label in zip(bank.tolist(), labels.tolist(), strict=True):
            dot = sum(a * b for a, b in zip(query, row, strict=True))
            similar.append((dot / math.hypot(*query) / math.hypot(*row), label))
        similar.sort(reverse=True)
        votes.append([sum(math.exp(s / temperature) for s, label in similar[:k] if label == c) for c in range(4)])
    return torch.tensor(votes)


def test_knn_equals_the_loops():
    (bank, labels), (queries, truth) = clusters(60), clusters(24, seed=1)
    slow = slow_votes(bank, labels, queries, 9, 0.2)
    unit = torch.nn.functional.normalize
    ours = vote(
        unit(bank, dim=1), labels, unit(queries, dim=1), k=9, temperature=0.2, most=7 * 60
    )  # chunks of 7 queries, the last one short
    torch.testing.assert_close(ours / ours.sum(1, keepdim=True), slow / slow.sum(1, keepdim=True), rtol=1e-4, atol=1e-5)
    score = knn((bank, labels), (queries, truth), k=9, temperature=0.2)
    assert score["top1"] == pytest.approx(100 * (slow.argmax(1) == truth).float().mean().item())


def test_knn_with_more_neighbours_than_images():
    train = clusters(20)
    assert knn(train, clusters(8, seed=1), k=200)["top5"] == 100


@pytest.mark.parametrize("bad", [{"k": 0}, {"temperature": 0.0}, {"temperature": math.nan}, {"temperature": math.inf}])
def test_knn_refuses_bad_settings(bad):
    with pytest.raises(UserError, match="knn"):
        knn(clusters(20), clusters(8), **bad)


@settings(max_examples=30)
@given(seed=st.integers(0, 9999), k=st.integers(1, 7))
def test_top_k_is_scikit_learns(seed, k):
    rng = np.random.default_rng(seed)
    scores, labels = rng.normal(size=(40, 6)), rng.integers(0, 6, 40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn warns that k ≥ classes is perfect, which is what we check
        expected = 100 * top_k_accuracy_score(labels, scores, k=k, labels=range(6))
    assert top_k(torch.tensor(scores), torch.tensor(labels), k) == pytest.approx(expected)


@pytest.mark.parametrize("strength", [1.0, 1e-2, 1e-4])
def test_regression_reaches_scikit_learns_optimum(strength):
    features, labels = clusters(400, width=10)
    features = Standardise(features)(features)

    def objective(weight, bias):
        scores = features.double() @ weight + bias
        return (torch.nn.functional.cross_entropy(scores, labels) + strength / 2 * weight.square().sum()).item()

    theirs = LogisticRegression(C=1 / (strength * len(features)), tol=1e-9, max_iter=5000).fit(
        features.numpy(), labels.numpy()
    )
    best = objective(torch.tensor(theirs.coef_.T).double(), torch.tensor(theirs.intercept_).double())
    ours = regression_path(features, labels, [strength])[0].double()
    assert objective(ours[:-1], ours[-1]) <= best + 1e-4


def test_linear_learns_and_chooses_on_the_training_set_alone():
    train, test = clusters(600), clusters(300, seed=1)
    score = linear(train, test)
    assert score["top1"] > 50
    shuffled = linear(train, (test[0], test[1][torch.randperm(300)]))
    assert shuffled["strength"] == score["strength"]
    assert shuffled["top1"] < 40


def test_noise_features_get_a_strong_penalty():
    torch.manual_seed(0)
    train, test = (torch.randn(80, 60), torch.arange(80) % 4), (torch.randn(80, 60), torch.arange(80) % 4)
    assert linear(train, test)["strength"] >= 1e-2


def test_linear_survives_constant_features():
    train, test = clusters(200), clusters(100, seed=1)
    dull = [(torch.cat([f, torch.full((len(f), 3), 5.0)], dim=1), y) for f, y in (train, test)]
    assert linear(*dull)["top1"] == pytest.approx(linear(train, test)["top1"], abs=2)


def test_linear_needs_two_classes():
    with pytest.raises(UserError, match="one class only"):
        linear((torch.randn(10, 3), torch.zeros(10, dtype=torch.int64)), clusters(8))


def test_linear_needs_two_images_a_class():
    with pytest.raises(UserError, match="no class has two"):
        linear((torch.randn(4, 3), torch.arange(4)), clusters(8))


def test_prediction_uses_the_bias():
    weight = torch.tensor([[1.0, 0.0], [0.5, -2.0]])
    assert torch.equal(predict(torch.tensor([[3.0]]), weight), torch.tensor([[3.5, -2.0]]))
