"""Everything that training and evaluation do on a GPU, on fake tensors: a tensor left on the CPU raises."""

import json
from dataclasses import replace

import pytest
import torch
from fake_cuda import all_on_cuda, fake_cuda, on_cuda
from shared_steps import BATCH, CASES, SIZE, photos, recipe_of
from torch import nn
from torch.nn.functional import normalize

from hardpair.data import open_images
from hardpair.evaluate.distill import distillation_loss
from hardpair.evaluate.features import outputs
from hardpair.evaluate.finetune import label_loss
from hardpair.evaluate.knn import vote
from hardpair.evaluate.linear import Probes, Standardise
from hardpair.evaluate.logistic import predict
from hardpair.evaluate.metrics import METRICS, accuracies
from hardpair.models import Classifier, build_encoder
from hardpair.train.checkpoints import load_checkpoint, restore, save_checkpoint
from hardpair.train.gallery import write_pairs
from hardpair.train.monitor import Meter
from hardpair.train.neighbours import agreement, nearest
from hardpair.train.optimisers import build_optimiser
from hardpair.train.step import Stepper, build_method, recipe_draw
from hardpair.views import POLICIES, Draw, augmented_view, plain_view

CPU = torch.device("cpu")
METHODS = ("hnpm", "moco", "cpc", "infomin", "instdisc", "supervised")  # what each of the others has is in one of these
KINDS = ("paper", "balanced", "infomin")  # crops last, crops first, RandAugment


def draw_on(device, case="hnpm"):
    return recipe_draw(recipe_of(case), 0, torch.arange(BATCH, device=device), torch.arange(BATCH, device=device))


def pixels_on(device):
    return torch.empty(BATCH, 3, SIZE, SIZE, dtype=torch.uint8, device=device)


def test_a_tensor_left_on_the_cpu_raises():
    """Else nothing below would mean anything."""
    with fake_cuda() as device:
        with pytest.raises(RuntimeError, match="device"):
            torch.ones(3, device=device) + torch.ones(3)
        with pytest.raises(RuntimeError, match="device"):
            on_cuda(nn.Linear(3, 3))(torch.ones(2, 3))


@pytest.mark.parametrize("case", [c if c in METHODS else pytest.param(c, marks=pytest.mark.slow) for c in CASES])
def test_a_step_of_every_method(case):
    """Views, forward, mined pairs, optimiser, and what follows a step."""
    method = build_method(recipe_of(case), photos())
    with fake_cuda() as device:
        method = on_cuda(method).train()
        views = method.views(pixels_on(device), draw_on(device, case))
        assert all_on_cuda(*views)
        found = method(views)
        assert all_on_cuda(*found.values())
        assert found["loss"].shape == ()
        optimiser = build_optimiser(method, recipe_of(case), method.constant_rate())
        trained = [p for p in method.parameters() if p.requires_grad]
        for parameter in trained:
            parameter.grad = torch.empty_like(parameter)
        nn.utils.clip_grads_with_norm_(trained, 1.0, nn.utils.get_total_norm([p.grad for p in trained]))
        optimiser.step()
        method.after_step(0.5)
        if (pairs := method.hard_pairs(views)) is not None:
            assert all_on_cuda(pairs.anchor, pairs.negative, pairs.distance)
        meter = Meter()
        meter.add(found, images=BATCH, waited=0.0)
        assert meter.read().keys() >= {"loss", "spread", "rank"}


@pytest.mark.parametrize("size", [0, SIZE // 2])
@pytest.mark.parametrize("policy", [p if p in KINDS else pytest.param(p, marks=pytest.mark.slow) for p in POLICIES])
def test_views_by_every_policy(policy, size):
    with fake_cuda() as device:
        view = augmented_view(
            pixels_on(device), POLICIES[policy], Draw(0, 0, torch.arange(BATCH, device=device)).at(size)
        )
        small = plain_view(pixels_on(device), size)
        assert all_on_cuda(view, small)
        assert view.shape == small.shape == (BATCH, 3, size or SIZE, size or SIZE)


def test_the_gallery(tmp_path, monkeypatch):
    monkeypatch.setattr("hardpair.train.gallery.describe_image", lambda *_: "a picture")
    method = build_method(recipe_of("hnpm"), photos())
    with fake_cuda() as device:
        write_pairs(tmp_path / "pairs.json", on_cuda(method), replace(photos(), labels=None), draw_on(device))
    assert json.loads((tmp_path / "pairs.json").read_text())["images"] == 3 * BATCH


@pytest.mark.parametrize("optimiser", ["adam", *(pytest.param(o, marks=pytest.mark.slow) for o in ("sgd", "lars"))])
def test_a_checkpoint_is_put_back(tmp_path, optimiser):
    case = "moco" if optimiser == "sgd" else "simclrv2, lars" if optimiser == "lars" else "hnpm"
    recipe = recipe_of(case)
    stepper = Stepper(recipe, photos(), CPU)
    stepper.method.train()
    stepper.take(0)
    save_checkpoint(tmp_path, 1, stepper.method, stepper.optimiser)
    checkpoint, _ = load_checkpoint(tmp_path)
    method = build_method(recipe, photos())
    with fake_cuda():
        method = on_cuda(method)
        built = build_optimiser(method, recipe, method.constant_rate())
        restore(checkpoint, method, built)
        assert all_on_cuda(*method.state_dict().values())
        moments = [value for state in built.state.values() for name, value in state.items() if name != "step"]
        assert moments
        assert all_on_cuda(*moments)


def test_features_and_class_scores(tmp_path):
    """Networks are on the GPU; what comes back for the evaluators is on the CPU."""
    images = open_images("sample:10", "train", size=SIZE, root=tmp_path)
    encoder = build_encoder("resnet10", width=1 / 8, small_images=True)
    classifier, probes = Classifier(encoder, 10).eval(), Probes(encoder, 2, 10).eval()
    with fake_cuda() as device:
        for network, shape in ((encoder.eval(), (10, 64)), (classifier, (10, 10)), (probes, (10, 2, 10))):
            found = outputs(on_cuda(network), images, device)
            assert (found.device, found.shape) == (CPU, shape)


def test_losses_and_metrics_of_evaluators():
    with fake_cuda() as device:
        scores, labels = torch.rand(BATCH, 10, device=device), torch.zeros(BATCH, dtype=torch.long, device=device)
        signs = torch.ones(BATCH, 10, device=device)
        assert all_on_cuda(
            label_loss(scores, labels), label_loss(scores, signs), distillation_loss(scores, scores, 0.1)
        )
        assert accuracies(scores, labels).keys() == {"top1", "top5"}
        for name, metric in METRICS.items():
            assert isinstance(metric(scores, signs if name == "map11" else labels), float)


def test_neighbours_and_regression():
    with fake_cuda() as device:
        features, labels = torch.rand(BATCH, 8, device=device), torch.zeros(BATCH, dtype=torch.long, device=device)
        unit = normalize(features, dim=1)
        assert all_on_cuda(vote(unit, labels, unit, k=3, temperature=0.1), *nearest(features))
        assert isinstance(agreement(nearest(features), labels), float)
        assert all_on_cuda(predict(Standardise(features)(features), torch.rand(9, 10, device=device)))
