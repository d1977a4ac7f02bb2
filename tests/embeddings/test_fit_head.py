"""A head against its equations, against scikit-learn, and on labels as few and as odd as they come."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from make_embedding import blobs
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import precision_recall_fscore_support

from hardpair.embeddings import fit_head as module
from hardpair.embeddings.fit_head import PENALTIES, fit_head, fit_temperature, stratified_folds
from hardpair.embeddings.head_report import calibration_error, report_of, wilson

ENCODER = {"source": "runs/none", "fingerprint": "f" * 64, "num_features": 8}


def fitted(vectors, labels, classes=None, **options):
    classes = classes or [f"class {k}" for k in range(int(labels.max()) + 1)]
    return fit_head(vectors, labels, classes, encoder=ENCODER, **options)


def log_loss(logits, labels):
    logits = logits - logits.max(1, keepdims=True)
    return float(np.mean(np.log(np.exp(logits).sum(1)) - logits[np.arange(len(labels)), labels]))


def test_the_penalty_is_the_one_a_slow_loop_finds():
    """The same folds, each fitted by scikit-learn in the vectors' own units, and the log loss of all of them."""
    vectors, labels = blobs(90, 6, 3, spread=2.0)
    vectors = 5 + 3 * vectors
    losses, steps = np.zeros(len(PENALTIES)), range(6, 16)
    for repeat in range(module.REPEATS):
        folds = stratified_folds(labels, 5, repeat)
        for fold in range(5):
            kept, held = folds != fold, folds == fold
            mean, scale = vectors[kept].mean(0), np.sqrt(vectors[kept].var(0).mean())
            for place in steps:
                strength = 1 / (PENALTIES[place] * len(labels))  # C counts per label: the same in a fold
                fit = LogisticRegression(C=strength, tol=1e-8, max_iter=5000)
                fit.fit((vectors[kept] - mean) / scale, labels[kept])
                logits = (vectors[held] - mean) / scale @ fit.coef_.T + fit.intercept_
                losses[place] += log_loss(logits, labels[held]) * held.sum()
    losses[: steps.start] = losses[steps.stop :] = np.inf
    assert fitted(vectors, labels).strength == PENALTIES[int(losses.argmin())]


def test_logits_are_those_of_the_same_penalty_in_scikit_learn():
    vectors, labels = blobs(200, 8, 4, spread=1.5, seed=1)
    vectors = vectors * np.logspace(-1, 1, 8, dtype="f4") + 10
    made = fitted(vectors, labels)
    mean, scale = vectors.mean(0), np.sqrt(vectors.var(0).mean())
    theirs = LogisticRegression(C=1 / (made.strength * 200), tol=1e-10, max_iter=20_000).fit(
        (vectors - mean) / scale, labels
    )
    expected = (vectors - mean) / scale @ theirs.coef_.T + theirs.intercept_
    ours = made.head.logits(vectors)
    np.testing.assert_allclose(
        ours - ours.mean(1, keepdims=True), expected - expected.mean(1, keepdims=True), atol=0.02
    )


@pytest.mark.parametrize(("per_class", "most"), [(5, 0.1), (40, 0.05)])
def test_as_accurate_as_scikit_learns_search_and_better_calibrated(per_class: int, most: float):
    """On the mean of three draws; vectors as encoders give them, of classes that overlap."""
    ours, theirs = [], []
    for seed in range(3):
        vectors, labels = blobs(4 * per_class + 1500, 12, 4, spread=1.7, seed=seed)
        vectors, few = np.maximum(vectors, 0) + 0.1, 4 * per_class
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search = LogisticRegressionCV(Cs=10).fit(vectors[:few], labels[:few])
        head = fitted(vectors[:few], labels[:few]).head
        ours.append(accuracy_and_error(head.probabilities(vectors[few:]), labels[few:]))
        theirs.append(accuracy_and_error(search.predict_proba(vectors[few:]), labels[few:]))
    (accuracy, error), (their_accuracy, their_error) = np.mean(ours, axis=0), np.mean(theirs, axis=0)
    assert accuracy >= their_accuracy - 0.005
    assert error <= most
    assert error <= their_error + 0.005


def accuracy_and_error(probabilities, labels):
    right = probabilities.argmax(1) == labels
    return right.mean(), calibration_error(probabilities.max(1), right)


def test_temperature_is_the_minimum_of_its_loss():
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 5, (400,), generator=generator)
    logits = 3 * torch.nn.functional.one_hot(labels, 5) + 4 * torch.randn(400, 5, generator=generator)

    def loss(temperature):
        return log_loss((logits / temperature).numpy(), labels.numpy()) + np.log(temperature) ** 2 / (2 * 0.5**2 * 400)

    found = fit_temperature(logits, labels, 400)
    tried = np.geomspace(0.05, 20, 4001)
    assert found == pytest.approx(tried[np.argmin([loss(t) for t in tried])], rel=2e-3)
    assert found > 2
    assert 1 < fit_temperature(logits[:4], labels[:4], 4) < 20  # so few labels say little
    assert 0.04 < fit_temperature(3.0 * torch.nn.functional.one_hot(labels, 5), labels, 400) < 1


@settings(max_examples=60)
@given(labels=st.lists(st.integers(0, 4), min_size=2, max_size=60), folds=st.integers(2, 6), seed=st.integers(0, 99))
def test_folds_are_even_and_leave_no_class_unseen(labels, folds, seed):
    labels = np.array(labels)
    fold = stratified_folds(labels, folds, seed)
    counts = np.bincount(labels)
    assert (fold[counts[labels] == 1] == -1).all()
    assert ((fold[counts[labels] > 1] >= 0) & (fold[counts[labels] > 1] < folds)).all()
    for k in np.flatnonzero(counts > 1):
        sizes = np.bincount(fold[labels == k], minlength=folds)
        assert sizes.max() - sizes.min() <= 1
    sizes = np.bincount(fold[fold >= 0], minlength=folds)
    assert sizes.max() - sizes.min() <= 1
    assert np.array_equal(fold, stratified_folds(labels, folds, seed))


def test_a_class_of_one_label_is_learned_but_not_measured():
    vectors, labels = blobs(60, 8, 3)
    vectors = np.concatenate([vectors, np.full((1, 8), 9, "f4")])
    made = fitted(vectors, np.append(labels, 3))
    alone = made.report.classes[3]
    assert (alone.labels, alone.measured, alone.recall, alone.f1) == (1, 0, None, None)
    assert made.report.measured == 60
    assert made.head.probabilities(vectors[-1:]).argmax() == 3


def test_one_label_of_each_class_is_enough_to_begin_with():
    made = fitted(np.eye(3, 8, dtype="f4"), np.arange(3))
    assert made.report.measured == 0
    assert np.isnan(made.report.accuracy)
    assert made.head.probabilities(np.eye(3, 8)).argmax(1).tolist() == [0, 1, 2]
    assert list(made.report.lines())


@pytest.mark.parametrize("count", [3, 4, 10])
def test_few_images(count):
    vectors = np.random.default_rng(0).normal(size=(count, 8)).astype("f4")
    made = fitted(vectors, np.arange(count) % 2)
    assert np.isfinite(made.head.probabilities(vectors)).all()


def test_vectors_that_do_not_vary_are_no_reason_to_fail():
    made = fitted(np.full((20, 8), 1e3, "f4"), np.arange(20) % 2)
    np.testing.assert_allclose(made.head.probabilities(np.full((2, 8), 1e3, "f4")), 0.5, atol=1e-3)


def test_many_labels_are_held_out_once(monkeypatch):
    monkeypatch.setattr(module, "MOST", 600)
    vectors, labels = blobs(900, 8, 3, spread=1.0)
    made = fitted(vectors, labels)
    assert made.report.measured <= 200
    assert made.report.how == "1/5 held out"
    assert made.report.low < (made.head.logits(vectors).argmax(1) == labels).mean()


def test_the_same_call_gives_the_same_head():
    vectors, labels = blobs(60, 8, 3, spread=2.0)
    first, second = fitted(vectors, labels), fitted(vectors, labels)
    assert torch.equal(first.head.weight, second.head.weight)
    assert first.head.temperature == second.head.temperature
    assert first.report == second.report


def test_reported_probabilities_are_calibrated_by_other_labels():
    """A slow loop over the folds of each draw: the temperature that suits the other folds."""
    vectors, labels = blobs(80, 6, 3, spread=2.0)
    targets, held = torch.from_numpy(labels), module.HeldOut(torch.from_numpy(labels), 3, 0)
    strength, temperature, probabilities = held.choose(torch.from_numpy(vectors))
    expected, place = [], PENALTIES.index(strength)
    logits = [list(held._logits(torch.from_numpy(vectors), *part))[place] for part in held.parts]
    for draw in range(module.REPEATS):
        folds = range(5 * draw, 5 * draw + 5)
        for number in folds:
            others = [other for other in folds if other != number]
            truth = torch.cat([targets[held.parts[other][1]] for other in others])
            own = fit_temperature(torch.cat([logits[other] for other in others]), truth, len(truth))
            assert own != temperature
            expected.append((logits[number] / own).softmax(1))
    np.testing.assert_allclose(probabilities, torch.cat(expected).numpy(), atol=1e-5)


def test_report_against_scikit_learn():
    random = np.random.default_rng(3)
    labels, probabilities = random.integers(0, 4, 200), random.dirichlet(np.ones(5), 200).astype("f4")
    made = report_of(probabilities.argmax(1), probabilities.max(1), labels, list("abcde"), [9] * 5, "somehow")
    precision, recall, f1, support = precision_recall_fscore_support(
        labels, probabilities.argmax(1), labels=range(5), zero_division=0
    )
    assert [one.measured for one in made.classes] == support.tolist()
    np.testing.assert_allclose([one.precision or 0 for one in made.classes], precision)
    np.testing.assert_allclose([one.recall or 0 for one in made.classes], recall)
    np.testing.assert_allclose([one.f1 or 0 for one in made.classes], f1)
    assert made.classes[4].recall is None
    tiled = (np.tile(values, 2) for values in (probabilities.argmax(1), probabilities.max(1), labels))
    twice = report_of(*tiled, list("abcde"), [9] * 5, "", times=2)
    assert (twice.measured, twice.accuracy, twice.low) == (made.measured, made.accuracy, made.low)


def test_calibration_error_and_interval_by_their_definitions():
    random = np.random.default_rng(4)
    confidence, right = random.random(500), random.random(500) < 0.6
    expected = 0.0
    for low in np.arange(10) / 10:
        inside = (confidence >= low) & (confidence < low + 0.1 + 1e-12 * (low < 0.9))
        expected += abs(confidence[inside].mean() - right[inside].mean()) * inside.mean()
    assert calibration_error(confidence, right, bins=10) == pytest.approx(expected, abs=1e-3)
    assert calibration_error(np.ones(3), np.ones(3, bool)) == 0
    # The share at either end is one from which the one that was found is 1.96 deviations away.
    for end in wilson(0.3, 50):
        assert abs(0.3 - end) / np.sqrt(end * (1 - end) / 50) == pytest.approx(1.959964, rel=1e-6)
    assert wilson(1.0, 5)[1] == 1
