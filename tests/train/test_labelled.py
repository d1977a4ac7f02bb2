"""Training with labels, step for step against a loop written out."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from hardpair.data import epoch_order, open_images
from hardpair.recipes.tuning import PRESETS, Tuning
from hardpair.train.labelled import DivergedError, rate_at, tune
from hardpair.views import POLICIES, Draw, augmented_view

CPU = torch.device("cpu")
WHERE = {"seed": 0, "device": CPU, "label": "here"}


@pytest.fixture
def images(tmp_path):
    return open_images("sample", "test", size=8, root=tmp_path).select(torch.arange(50))


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 10))


def label_loss(images):
    return lambda scores, rows, _view: cross_entropy(scores, images.labels[rows])


def test_steps_are_nesterovs_along_a_cosine(images):
    tuned, by_hand = network(), network()
    tuning = Tuning("sgd", 0.1, batch_size=20, steps=5, weight_decay=0.01)
    tune(tuned, images, tuning, label_loss(images), classifier=tuned[1], seed=3, device=CPU, label="")
    speed = [torch.zeros_like(p) for p in by_hand.parameters()]
    for step in range(5):
        rows = epoch_order(50, seed=3, epoch=step // 2)[step % 2 * 20 :][:20]  # two whole batches an epoch
        view = augmented_view(images.pixels[rows], POLICIES["crop"], Draw(3, step, torch.arange(20)))
        by_hand.zero_grad()
        cross_entropy(by_hand(view), images.labels[rows]).backward()
        rate = 0.1 * 0.5 * (1 + math.cos(math.pi * step / 5))
        with torch.no_grad():
            for p, v in zip(by_hand.parameters(), speed, strict=True):
                gradient = p.grad + (0.01 * p if p.ndim > 1 else 0)  # no weight decay on biases
                v.mul_(0.9).add_(gradient)
                p.sub_(rate * (gradient + 0.9 * v))
    for ours, theirs in zip(tuned.parameters(), by_hand.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_crops_are_as_large_as_images_are_shown(tmp_path):
    """And they are cut from all of the larger image."""
    larger = open_images("sample", "test", size=11, root=tmp_path).select(torch.arange(50))
    for images, size in ((larger.shown_at(8), 8), (larger, 11)):
        seen, layer = [], nn.Linear(3 * size**2, 10)
        net = nn.Sequential(nn.Flatten(), layer)
        net.register_forward_hook(lambda _, inputs, _output, seen=seen: seen.append(inputs[0]))
        tune(net, images, Tuning("sgd", 0.1, 20, 1), label_loss(images), classifier=layer, **WHERE)
        rows = epoch_order(50, seed=0, epoch=0)[:20]
        draw = Draw(0, 0, torch.arange(20), size=8 if size == 8 else 0)
        assert torch.equal(seen[0], augmented_view(larger.batch(rows), POLICIES["crop"], draw))


def test_what_takes_no_gradient_stays(images):
    fixed = network()
    fixed[1].weight.requires_grad_(False)
    before = copy.deepcopy(fixed)
    tune(fixed, images, Tuning("sgd", 0.1, 20, 2), label_loss(images), classifier=fixed[1], **WHERE)
    assert torch.equal(fixed[1].weight, before[1].weight)
    assert not torch.equal(fixed[1].bias, before[1].bias)


def test_divergence_is_one_line(images):
    one = network()
    with pytest.raises(DivergedError, match="not finite; a lower learning rate than 1e\\+38"):
        tune(one, images, Tuning("sgd", 1e38, 20, 4), label_loss(images), classifier=one[1], **WHERE)


def test_divergence_is_noticed_long_before_the_end(images):
    one, steps = network(), []

    def loss(scores, rows, _view):
        steps.append(len(rows))
        return cross_entropy(scores, images.labels[rows])

    with pytest.raises(DivergedError):
        tune(one, images, Tuning("sgd", 1e38, 20, 5000), loss, classifier=one[1], **WHERE)
    assert len(steps) == 100


def test_lars_gives_the_classifier_plain_steps(images):
    torch.manual_seed(0)
    one = nn.Sequential(nn.Flatten(), nn.Linear(192, 8, bias=False), nn.Linear(8, 10))
    before = copy.deepcopy(one)
    tuning = Tuning("lars", 0.1, 20, 1, weight_decay=0.5)
    tune(one, images, tuning, label_loss(images), classifier=one[2], **WHERE)
    rows = epoch_order(50, seed=0, epoch=0)[:20]
    view = augmented_view(images.pixels[rows], POLICIES["crop"], Draw(0, 0, torch.arange(20)))
    cross_entropy(before(view), images.labels[rows]).backward()
    plain = before[2].weight - 0.1 * before[2].weight.grad  # neither adapted nor decayed
    torch.testing.assert_close(one[2].weight, plain)
    moved = (one[1].weight - before[1].weight).norm() / before[1].weight.norm()
    assert 2e-5 < moved.item() <= 1e-4  # adapted: at most a thousandth of its own norm, times the rate


def test_warmup_then_cosine():
    tuning = Tuning("lars", 2.0, 10, steps=100, warmup=0.1)
    rates = [rate_at(tuning, step) for step in range(100)]
    assert rates[:10] == pytest.approx([0.2 * k for k in range(1, 11)])
    assert rates[10] == 2.0
    assert rates[55] == pytest.approx(1.0)
    assert rates[99] < 0.001


def test_presets_are_the_published_settings_on_imagenet():
    def as_published(name, images, share):
        return [(t.learning_rate, t.batch_size, t.steps) for t in PRESETS[name].candidates(images, share=share)]

    assert as_published("simclr", 12_811, 0.01) == [(pytest.approx(0.8), 4096, 60 * 3)]
    assert as_published("simclr", 128_116, 0.1) == [(pytest.approx(0.8), 4096, 30 * 31)]
    assert as_published("simclrv2", 12_811, 0.01) == [(pytest.approx(0.16), 1024, 60 * 12)]
    assert as_published("simclrv2-wide", 128_116, 0.1) == [(pytest.approx(0.064), 1024, 30 * 125)]
    swept = as_published("byol", 12_811, 0.01)
    assert [rate for rate, *_ in swept[::2]] == [0.1, 0.05, 0.02, 0.01, 0.005]
    assert [steps for *_, steps in swept[:2]] == [30 * 12, 50 * 12]
    assert as_published("byol-scaled", 12_811, 0.01)[0][0] == pytest.approx(0.4)


def test_few_images_get_a_smaller_batch_and_its_rate():
    (tuning,) = PRESETS["simclr"].candidates(500, share=0.01)
    assert (tuning.batch_size, tuning.steps) == (166, 60 * 3)
    assert tuning.learning_rate == pytest.approx(0.05 * 166 / 256)
    (chosen,) = PRESETS["simclr"].candidates(500, share=0.01, batch_size=128)
    assert (chosen.batch_size, chosen.learning_rate) == (128, pytest.approx(0.025))
    (whole,) = PRESETS["simclr"].candidates(50, share=0.01, batch_size=128)
    assert (whole.batch_size, whole.steps) == (50, 60)
