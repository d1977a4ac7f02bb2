"""k nearest neighbours against loops written from the definition."""

import math

import pytest
import torch
from evaluating import evaluate

from hardpair.errors import UserError
from hardpair.evaluate import Settings, knn
from hardpair.evaluate.knn import vote
from hardpair.protocol_settings import Knn


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
        unit(bank, dim=1), labels, unit(queries, dim=1), k=9, temperature=0.2, at_once=7 * 60
    )  # chunks of 7 queries, the last one short
    torch.testing.assert_close(ours / ours.sum(1, keepdim=True), slow / slow.sum(1, keepdim=True), rtol=1e-4, atol=1e-5)
    score = knn((bank, labels), (queries, truth), k=9, temperature=0.2)
    assert score["top1"] == pytest.approx(100 * (slow.argmax(1) == truth).float().mean().item())


def test_knn_with_more_neighbours_than_images():
    train, test = clusters(20), clusters(8, seed=1)
    assert knn(train, test, k=200) == knn(train, test, k=20)


def test_the_printed_line_says_which_k_was_used(run):
    (score,), said = evaluate(run, "knn", settings=Settings(Knn(k=50)))
    assert (score["settings"]["k"], score["k_used"]) == (50, 50)
    assert "knn, k=50: " in said[-1]
    (score,), said = evaluate(run, "knn", settings=Settings(Knn(k=5000)))
    assert (score["settings"]["k"], score["k_used"]) == (5000, 1000)
    assert "k=1000" in said[-1]
    assert "5000" in said[-1]


@pytest.mark.parametrize("bad", [{"k": 0}, {"temperature": 0.0}, {"temperature": math.nan}, {"temperature": math.inf}])
def test_knn_refuses_bad_settings(bad):
    with pytest.raises(UserError, match="knn"):
        knn(clusters(20), clusters(8), **bad)
