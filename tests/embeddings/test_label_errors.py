"""Planted label errors come first, and no label speaks for itself."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from make_embedding import blobs, make_embedding

from hardpair.embeddings.embedding import Embedding
from hardpair.embeddings.graph import Graph, neighbour_graph
from hardpair.embeddings.label_errors import FEWEST, LabelErrors, label_errors, out_of_sample, unusual, votes


def flipped(labels: np.ndarray, classes: int, share: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Some labels made wrong, and which."""
    random = np.random.default_rng(seed)
    wrong = random.random(len(labels)) < share
    return np.where(wrong, (labels + random.integers(1, classes, len(labels))) % classes, labels), wrong


def embedding_of(folder, vectors: np.ndarray, labels: np.ndarray) -> Embedding:
    return make_embedding(folder, vectors, labels=[None if label < 0 else f"c{label}" for label in labels])


def judged(embedding: Embedding, group: np.ndarray | None = None) -> LabelErrors:
    found = label_errors(embedding, neighbour_graph(embedding), np.arange(len(embedding)) if group is None else group)
    assert isinstance(found, LabelErrors)
    return found


def auroc(wrong: np.ndarray, score: np.ndarray) -> float:
    """The share of pairs of a wrong and a right label in which the wrong one has the lower score."""
    low, high = score[wrong][:, None], score[~wrong][None]
    return float(((low < high) + 0.5 * (low == high)).mean())


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_planted_errors_come_first_and_before_cleanlabs(tmp_path, seed):
    rank = pytest.importorskip("cleanlab.rank")
    linear_model = pytest.importorskip("sklearn.linear_model")
    selection = pytest.importorskip("sklearn.model_selection")
    vectors, labels = blobs(1500, 16, 6, spread=1.0, seed=seed)
    noisy, wrong = flipped(labels, 6, 0.05, seed)
    found = judged(embedding_of(tmp_path, vectors, noisy))
    model = linear_model.LogisticRegression(max_iter=1000)
    probabilities = selection.cross_val_predict(model, vectors, noisy, cv=5, method="predict_proba")
    theirs = auroc(wrong, rank.get_label_quality_scores(noisy, probabilities))
    assert auroc(wrong, found.score) >= max(0.9, theirs - 0.003)
    assert wrong[found.likely[:20]].mean() >= 0.9
    assert (np.diff(found.score[found.likely]) >= 0).all()
    right = np.flatnonzero(wrong)
    assert (found.suggested[right] == labels[right]).mean() > 0.8
    assert (found.suggested != noisy).all()


def test_labels_do_not_speak_for_themselves(tmp_path):
    """Random labels are as probable as chance, also where each picture is there twice with one label."""
    random = np.random.default_rng(0)
    vectors = random.normal(size=(400, 24)).astype(np.float32)
    labels = random.integers(0, 4, 400)
    single = judged(embedding_of(tmp_path / "single", vectors, labels))
    assert single.score.mean() < 0.3
    twice = embedding_of(tmp_path / "twice", np.concatenate([vectors, vectors]), np.r_[labels, labels])
    grouped = judged(twice, np.r_[np.arange(400), np.arange(400)]).score.mean()
    assert grouped < 0.3
    assert judged(twice).score.mean() > grouped + 0.03  # without groups the copies tell


def test_probabilities_are_whole_and_of_all(tmp_path):
    vectors, labels = blobs(300, 8, 3)
    labels[::7] = -1
    embedding = embedding_of(tmp_path, vectors, labels)
    parts = list(out_of_sample(embedding, neighbour_graph(embedding), embedding.labels, np.arange(300)))
    rows = np.concatenate([rows for rows, _ in parts])
    assert sorted(rows.tolist()) == np.flatnonzero(labels >= 0).tolist()
    total = torch.cat([probabilities for _, probabilities in parts]).sum(1)
    np.testing.assert_allclose(total, 1, atol=1e-5)


def test_votes_are_those_of_the_definition(tmp_path):
    vectors, labels = blobs(40, 6, 3)
    labels[:5] = -1
    group = np.arange(40)
    group[10:14] = 10
    graph = neighbour_graph(make_embedding(tmp_path, vectors))
    rows = np.array([12, 30])
    expected = np.full((2, 3), 3.2 / 3)
    for place, row in enumerate(rows):
        counted = [
            (similarity, labels[near])
            for similarity, near in zip(graph.similarity[row].tolist(), graph.rows[row], strict=True)
            if labels[near] >= 0 and group[near] != group[row]
        ]
        for similarity, label in counted:
            expected[place, label] += np.exp((similarity - counted[0][0]) / 0.02)
    expected /= expected.sum(1, keepdims=True)
    np.testing.assert_allclose(votes(graph, rows, labels, group, 3), expected, rtol=1e-4)


def test_without_neighbours_votes_are_even():
    graph = Graph(np.empty((1, 0), np.float32), np.empty((1, 0), np.int64))
    np.testing.assert_allclose(votes(graph, np.array([0]), np.array([0]), np.array([0]), 2), [[0.5, 0.5]])


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(-1, 2)), min_size=1, max_size=20))
def test_unusual_is_a_tenth_of_what_is_usual(pairs):
    score = np.array([value for value, _ in pairs], np.float32)
    labels = np.array([label for _, label in pairs])
    usual = {label: score[labels == label].astype(float).mean() for label in set(labels.tolist())}
    expected = {row for row, label in enumerate(labels) if label >= 0 and score[row] < 0.1 * usual[label]}
    found = unusual(score, labels)
    assert set(found.tolist()) == expected
    assert (np.diff(score[found]) >= 0).all()


def test_small_classes_and_missing_labels_are_not_judged(tmp_path):
    vectors, labels = blobs(200, 8, 4)
    labels[labels == 3] = -1
    labels[:2] = 3  # two images of it
    labels[2] = 4
    found = judged(embedding_of(tmp_path, vectors, labels))
    out = (labels < 0) | (labels >= 3)
    assert np.isnan(found.score[out]).all()
    assert np.isfinite(found.score[~out]).all()
    assert (found.suggested[out] == -1).all()
    assert not out[found.likely].any()
    assert set(found.suggested[~out].tolist()) <= {0, 1, 2}


@pytest.mark.parametrize("labels", [[-1] * 40, [0] * 40, [0] * 38 + [1, 1], list(range(40))])
def test_why_labels_cannot_be_judged(tmp_path, labels):
    embedding = embedding_of(tmp_path, blobs(40, 4, 2)[0], np.array(labels))
    assert isinstance(label_errors(embedding, neighbour_graph(embedding), np.arange(40)), str)


def test_equal_vectors_and_the_fewest_images(tmp_path):
    """Vectors that say nothing: every label is as probable as its class is frequent, and none is an error."""
    labels = np.array([0] * FEWEST + [1] * FEWEST)
    found = judged(embedding_of(tmp_path, np.ones((2 * FEWEST, 4), np.float32), labels))
    np.testing.assert_allclose(found.score, 0.5, atol=0.1)
    assert len(found.likely) == 0


def test_the_same_labels_by_half_precision(tmp_path):
    vectors, labels = blobs(300, 8, 3, spread=1.0)
    noisy, _ = flipped(labels, 3, 0.05)
    whole = embedding_of(tmp_path / "whole", vectors, noisy)
    half = replace(whole, vectors=whole.vectors.astype(np.float16))
    graph = neighbour_graph(whole)
    ours, theirs = (label_errors(e, graph, np.arange(300)) for e in (whole, half))
    np.testing.assert_allclose(ours.score, theirs.score, atol=0.03)
