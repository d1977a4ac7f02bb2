"""Logistic regression against Newton's method in double precision and scikit-learn: the same minimum."""

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from torch.autograd.functional import hessian, jacobian
from torch.nn.functional import cross_entropy

from hardpair.evaluate import logistic
from hardpair.evaluate.logistic import predict, regression_path

PENALTIES = [10.0, 1e-2, 1e-3, 1e-5]


def problem(seed=0, count=300, width=8, classes=4):
    """Features as encoders give them: not negative, correlated, of very different sizes, not centred."""
    torch.manual_seed(seed)
    labels = torch.arange(count) % classes
    mixed = (torch.randn(classes, width)[labels] + torch.randn(count, width)) @ torch.randn(width, width)
    return torch.relu(mixed * torch.logspace(-2, 1, width) + 0.3), labels


def objective_of(features, labels, weight, penalty):
    scores = features @ weight[:-1] + weight[-1]
    return cross_entropy(scores, labels) + penalty / 2 * weight[:-1].square().sum()


def objective(features, labels, weight, penalty):
    return objective_of(features.double(), labels, weight.double(), penalty).item()


def minimum(features, labels, penalty):
    """The smallest objective, by damped Newton steps with derivatives from autograd."""

    def value(flat):
        return objective_of(features.double(), labels, flat.view(features.shape[1] + 1, -1), penalty)

    flat = torch.zeros((features.shape[1] + 1) * (int(labels.max()) + 1), dtype=torch.float64)
    for _ in range(100):
        gradient, curvature = jacobian(value, flat), hessian(value, flat)
        step = torch.linalg.pinv(curvature, hermitian=True) @ gradient  # a shift of all biases changes nothing
        length = next((0.5**k for k in range(40) if value(flat - 0.5**k * step) < value(flat)), 0.0)
        if length * (gradient @ step) < 1e-12:
            break
        flat = flat - length * step
    return value(flat).item()


def scikit_learns(features, labels, penalty):
    fit = LogisticRegression(C=1 / (penalty * len(features)), tol=1e-10, max_iter=20_000)
    fit.fit(features.double().numpy(), labels.numpy())
    rows = [torch.tensor(fit.coef_.T), torch.tensor(fit.intercept_)[None]]
    return torch.cat(rows)


@settings(max_examples=3)
@given(seed=st.integers(0, 999), width=st.sampled_from([2, 8]))
@example(seed=221, width=2)  # one feature varies three thousand times less than the other
def test_every_penalty_of_the_path_reaches_the_minimum(seed, width):
    features, labels = problem(seed, width=width)
    for penalty, ours in zip(PENALTIES, regression_path(features, labels, PENALTIES), strict=True):
        assert objective(features, labels, ours, penalty) <= minimum(features, labels, penalty) + 1e-5


@pytest.mark.slow
def test_single_precision_is_enough_for_many_features(monkeypatch):
    monkeypatch.setattr(logistic, "DOUBLE_UP_TO", 0)
    features, labels = problem(count=600, width=16)
    for penalty, ours in zip(PENALTIES, regression_path(features, labels, PENALTIES), strict=True):
        assert objective(features, labels, ours, penalty) <= minimum(features, labels, penalty) + 1e-5


def test_more_features_than_images():
    features, labels = problem(count=40, width=100)
    for penalty, ours in zip(PENALTIES, regression_path(features, labels, PENALTIES), strict=True):
        best = objective(features, labels, scikit_learns(features, labels, penalty), penalty)
        assert objective(features, labels, ours, penalty) <= best + 1e-5
        assert ours.shape == (101, 4)


def test_several_labels_per_image_are_problems_of_their_own():
    features, labels = problem()
    signs = torch.where(labels[:, None] == torch.arange(4), 1, -1)
    signs[::7, 2] = 0  # not counted for class 2
    both = regression_path(features, signs, PENALTIES)[2]
    for k in range(4):
        counted = signs[:, k] != 0
        fit = LogisticRegression(C=1 / (PENALTIES[2] * int(counted.sum())), tol=1e-10, max_iter=20_000)
        fit.fit(features[counted].double().numpy(), signs[counted, k].numpy())
        theirs = torch.tensor(fit.decision_function(features.double().numpy()))
        torch.testing.assert_close(predict(features, both)[:, k].double(), theirs, rtol=0.02, atol=0.02)


def test_the_bias_is_not_penalised():
    features, labels = problem(classes=2, count=100)
    labels = (torch.arange(100) < 90).long()
    weight = regression_path(features, labels, [1e6])[0]
    assert weight[:-1].abs().max() < 1e-4
    assert predict(features, weight).softmax(1)[:, 1].mean().item() == pytest.approx(0.9, abs=1e-3)


def test_features_that_do_not_vary_change_nothing():
    features, labels = problem()
    dull = torch.cat([features, torch.full((len(features), 3), 5.0)], dim=1)
    without, with_dull = (regression_path(some, labels, PENALTIES) for some in (features, dull))
    for penalty, ours, theirs in zip(PENALTIES, without, with_dull, strict=True):
        assert theirs[8:11].abs().max() < 1e-6  # nothing rests on them
        found = objective(dull, labels, theirs, penalty)
        assert found == pytest.approx(objective(features, labels, ours, penalty), abs=1e-6)


def test_prediction_uses_the_bias():
    weight = torch.tensor([[1.0, 0.0], [0.5, -2.0]])
    assert torch.equal(predict(torch.tensor([[3.0]]), weight), torch.tensor([[3.5, -2.0]]))
