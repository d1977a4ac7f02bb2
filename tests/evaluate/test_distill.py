"""Distillation of a fine-tuned network into another one."""

import json
import math
from dataclasses import replace

import pytest
import torch
from evaluating import CPU, QUICK, evaluate
from safetensors.torch import load_file

from hardpair import build_encoder, load_encoder
from hardpair.data import open_images
from hardpair.evaluate import Settings
from hardpair.evaluate.distill import distil, distillation_loss
from hardpair.evaluate.features import outputs
from hardpair.models import Classifier
from hardpair.protocol_settings import Distilled
from hardpair.recipes.tuning import Tuning


def test_the_learner_of_a_distillation_is_saved(run):
    distilled = Distilled("resnet14", 1 / 16, learner_epochs=1, learner_batch_size=250)
    (score,), _ = evaluate(run, "distill", settings=Settings(tuned=QUICK, distilled=distilled))
    folder = run / "distilled-0.1-resnet14-0.0625x"
    assert load_encoder(folder).settings["name"] == "resnet14"
    assert load_file(folder / "classifier.safetensors")["weight"].shape == (10, load_encoder(folder).num_features)
    assert json.loads((folder / "classes.json").read_text())[0] == "airplane"
    assert (score["settings"]["batch_size"], score["settings"]["learner_batch_size"]) == (50, 250)
    published = {"temperature": 1.0, "rate": 0.1, "weight_decay": 1e-4, "warmup": 0.05}
    assert score["settings"] | published == score["settings"]
    assert score["settings"]["shape"]["name"] == "resnet14"
    assert score["data"]["unlabelled"]["images"] == 1000
    assert "taught_by_top1" in score["chosen"]["encoder"]


def test_a_learner_learns_from_the_teacher_alone(tmp_path):
    images = open_images("sample", "test", size=8, root=tmp_path)
    shuffled = replace(images, labels=images.labels.roll(1))
    torch.manual_seed(0)
    encoder = build_encoder("resnet10", width=1 / 16, small_images=True)
    teacher = Classifier(encoder, 10).eval()
    torch.nn.init.normal_(teacher.linear.weight)
    tuning = Tuning("lars", 1.0, 100, steps=30)
    learners = [
        distil(teacher, encoder.settings, some, tuning, temperature=1.0, seed=0, device=CPU)
        for some in (images, shuffled)
    ]
    assert all(map(torch.equal, learners[0].state_dict().values(), learners[1].state_dict().values()))
    taught, learned = (outputs(network, images, CPU).argmax(1) for network in (teacher, learners[0]))
    assert (taught == learned).float().mean() > 0.3


def test_distillation_loss_is_the_formula():
    torch.manual_seed(0)
    scores, answers, t = torch.randn(5, 3, dtype=torch.float64), torch.randn(5, 3, dtype=torch.float64), 0.3
    total = 0.0
    for s, a in zip(scores.tolist(), answers.tolist(), strict=True):
        p = [math.exp(x / t) for x in a]
        q = [math.exp(x / t) for x in s]
        total -= sum(pi / sum(p) * math.log(qi / sum(q)) for pi, qi in zip(p, q, strict=True))
    assert distillation_loss(scores, answers, t).item() == pytest.approx(t**2 * total / 5)
