"""Fine-tuning an encoder."""

import math

import pytest
import torch
from evaluating import CPU

from hardpair import build_encoder, load_encoder
from hardpair.data import open_images
from hardpair.evaluate.finetune import FineTuner, label_loss
from hardpair.recipes.tuning import Tuning


def test_fine_tuning_trains_a_copy(run):
    images, encoder = open_images("sample", "test", size=8, root=run), load_encoder(run)
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    network = FineTuner(encoder, 0, CPU).fit(images, Tuning("sgd", 0.1, 100, steps=2), label="")
    assert all(torch.equal(before[name], tensor) for name, tensor in encoder.state_dict().items())
    assert not encoder.training
    changed = network.encoder.state_dict()
    assert not any(torch.equal(before[name], changed[name]) for name, _ in encoder.named_parameters())
    assert not torch.equal(before["trunk.bn1.running_mean"], changed["trunk.bn1.running_mean"])  # in training mode


def test_batch_norm_follows_as_published(tmp_path):
    images = open_images("sample", "test", size=8, root=tmp_path)
    encoder = build_encoder("resnet10", width=1 / 16, small_images=True)
    tuner = FineTuner(encoder, 0, CPU, norm_follows_epoch=True)
    network = tuner.fit(images, Tuning("sgd", 0.01, 5, steps=1), label="")  # 200 steps per epoch
    assert network.encoder.trunk.bn1.momentum == pytest.approx(10 / 200)
    network = tuner.fit(images, Tuning("sgd", 0.01, 100, steps=1), label="")
    assert network.encoder.trunk.bn1.momentum == 0.1


def test_label_loss_of_several_labels_per_image():
    scores, signs = torch.tensor([[2.0, -1.0], [0.5, 3.0]]), torch.tensor([[1, 0], [-1, 1]])
    expected = (math.log1p(math.exp(-2)) + math.log1p(math.exp(0.5)) + math.log1p(math.exp(-3))) / 3
    assert label_loss(scores, signs).item() == pytest.approx(expected)
