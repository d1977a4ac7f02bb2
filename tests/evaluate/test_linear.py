"""Linear evaluation: regression on features, and layers trained on augmented images."""

from dataclasses import replace

import pytest
import torch
from evaluating import CPU, QUICK, evaluate
from sklearn.linear_model import LogisticRegression
from test_knn import clusters

from hardpair import build_encoder, load_encoder
from hardpair.data import open_images
from hardpair.errors import UserError
from hardpair.evaluate import Settings, linear
from hardpair.evaluate.linear import RATES, Standardise, fit_probes, probe
from hardpair.evaluate.logistic import regression_path


@pytest.mark.parametrize("penalty", [1.0, 1e-2, 1e-4])
def test_regression_reaches_scikit_learns_optimum(penalty):
    features, labels = clusters(400, width=10)
    features = Standardise(features)(features)

    def objective(weight, bias):
        scores = features.double() @ weight + bias
        return (torch.nn.functional.cross_entropy(scores, labels) + penalty / 2 * weight.square().sum()).item()

    theirs = LogisticRegression(C=1 / (penalty * len(features)), tol=1e-9, max_iter=5000).fit(
        features.numpy(), labels.numpy()
    )
    best = objective(torch.tensor(theirs.coef_.T).double(), torch.tensor(theirs.intercept_).double())
    ours = regression_path(features, labels, [penalty])[0].double()
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
    with pytest.raises(UserError, match=r"linear: .*one class"):
        linear((torch.randn(10, 3), torch.zeros(10, dtype=torch.int64)), clusters(8))


def test_linear_needs_two_images_per_class():
    with pytest.raises(UserError, match="no class has two"):
        linear((torch.randn(4, 3), torch.arange(4)), clusters(8))


def test_learning_rates_trained_side_by_side_are_as_if_trained_alone(tmp_path):
    images = open_images("sample", "test", size=8, root=tmp_path).select(torch.arange(0, 100, 2))
    torch.manual_seed(0)
    encoder = build_encoder("resnet10", width=1 / 16, small_images=True).eval()
    options = {"batch_size": 25, "epochs": 3, "seed": 0, "device": CPU}
    both = fit_probes(encoder, images, (0.4, 0.1), **options)
    alone = fit_probes(encoder, images, (0.1,), **options)
    torch.testing.assert_close(both.linear.weight.unflatten(0, (2, 10))[1], alone.linear.weight)
    assert all(map(torch.equal, both.encoder.state_dict().values(), encoder.state_dict().values()))


def test_the_probe_chooses_its_learning_rate(run):
    train, test = (open_images("sample:1000", split, size=8, root=run) for split in ("train", "test"))
    options = {"rates": (0.0, 0.4), "batch_size": 250, "epochs": 2, "held_share": 0.2, "seed": 0, "device": CPU}
    score = probe(load_encoder(run), train, test, **options)
    assert score["rate"] == 0.4
    assert score["top1"] > 12


def test_a_score_of_the_probe_names_its_settings(run):
    (score,), _ = evaluate(run, "linear", settings=Settings(tuned=replace(QUICK, augmented=True, epochs=1)))
    used = {"form": "augmented", "rates": RATES, "batch_size": 50, "epochs": 1, "held_share": 0.01}
    assert score["settings"] == used
    assert score["chosen"]["encoder"]["rate"] in RATES
