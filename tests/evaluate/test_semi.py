"""Fine-tuning with few labels."""

import json
from dataclasses import replace

import pytest
import torch
from evaluating import QUICK, evaluate

from hardpair import load_encoder
from hardpair.errors import UserError
from hardpair.evaluate import Settings
from hardpair.evaluate.finetune import FineTuner
from hardpair.models import mlp, save_head_layer
from hardpair.protocol_settings import Tuned
from hardpair.recipes.tuning import PRESETS
from hardpair.train.labelled import DivergedError


def semi(run, tuned=QUICK):
    return evaluate(run, "semi", settings=Settings(tuned=tuned))


def test_few_labels_are_counted_and_the_number_kept(run):
    (score,), said = semi(run)
    assert score["labelled_images"] == score["data"]["train"]["images"] == 100
    assert "100 labelled images of 1,000" in said[0]
    assert score["settings"] | {"labels": 0.1, "preset": "simclr", "batch_size": 50} == score["settings"]
    assert score["chosen"]["encoder"] == {"learning_rate": pytest.approx(0.05 * 50 / 256), "steps": 8}
    assert score["metrics"].keys() == score["control"].keys() == {"top1", "top5"}
    assert json.loads((run / "scores.jsonl").read_text()) == json.loads(json.dumps(score))


@pytest.mark.slow
def test_the_same_random_encoder_is_measured_once(run, monkeypatch):
    """Other settings, or a layer of the run's own head, make it another one."""
    fits = []
    fit = FineTuner.fit

    def spy(self, images, tuning, *, label):
        fits.append(tuning.steps)
        return fit(self, images, tuning, label=label)

    monkeypatch.setattr(FineTuner, "fit", spy)

    monkeypatch.setitem(PRESETS, "head", replace(PRESETS["simclr"], keep_head_layer=True))

    def control(share, preset="simclr"):
        return semi(run, replace(QUICK, labels=(share,), preset=preset))[0][0]["control"]

    assert control(0.02) == control(0.02)
    assert len(fits) == 3
    control(0.04)
    assert len(fits) == 5
    for count in (8, 11):  # one layer, and another: the encoder twice each, the random one once
        save_head_layer(mlp(load_encoder(run).num_features, 16, 8)[0], run)
        for _ in range(2):
            control(0.02, "head")
        assert len(fits) == count


def test_a_preset_with_several_rates_chooses_within_the_labelled_images(run, monkeypatch):
    used, held_out = [], []
    fit, score_on = FineTuner.fit, FineTuner.score

    def spy(self, images, tuning, *, label):
        used.append((len(images), tuning.learning_rate))
        return fit(self, images, tuning, label=label)

    def spy_score(self, network, images, metric):
        held_out.append(score_on(self, network, images, metric))
        assert len(images) == 20
        return held_out[-1]

    monkeypatch.setattr(FineTuner, "fit", spy)
    monkeypatch.setattr(FineTuner, "score", spy_score)
    monkeypatch.setitem(PRESETS, "two", replace(PRESETS["simclr"], rates=(0.05, 1e-6)))
    (score,), _ = semi(run, replace(QUICK, preset="two"))
    assert [count for count, _ in used] == [80, 80, 100] * 2  # for the encoder, and for the control
    better = max((0, 1), key=lambda candidate: held_out[candidate])  # of the two rates
    assert score["chosen"]["encoder"]["learning_rate"] == used[better][1] == used[2][1]
    assert score["settings"]["held_share"] == 0.2


def test_a_learning_rate_cannot_be_chosen_with_one_label_per_class(run):
    with pytest.raises(UserError, match="preset: byol"):
        semi(run, Tuned(labels=(0.002,), preset="byol"))


def test_fine_tuning_from_the_heads_first_layer(run, monkeypatch):
    tuned = Tuned(labels=(0.01,), preset="simclrv2", epochs=1)
    with pytest.raises(UserError, match="head"):
        semi(run, tuned)
    features = load_encoder(run).num_features
    layer = mlp(features, 24, 8)[0]
    save_head_layer(layer, run)
    began = []
    fit = FineTuner.fit

    def spy(self, images, tuning, *, label):
        began.append(self.head_layer[0].weight.clone())
        network = fit(self, images, tuning, label=label)
        assert network.linear.in_features == 24
        return network

    monkeypatch.setattr(FineTuner, "fit", spy)
    (score,), _ = semi(run, tuned)
    assert score["settings"]["keep_head_layer"] is True
    own, random = began
    assert torch.equal(own, layer[0].weight)
    assert own.shape == random.shape
    assert not torch.equal(own, random)


def test_a_control_that_diverges_costs_no_score(run, monkeypatch):
    fit = FineTuner.fit

    def fail_for_the_control(self, images, tuning, *, label):
        if self.encoder.step == 0:  # never trained
            raise DivergedError("here")
        return fit(self, images, tuning, label=label)

    monkeypatch.setattr(FineTuner, "fit", fail_for_the_control)
    (score,), said = semi(run)
    assert score["control"] == {}
    assert score["metrics"]["top1"] > 12
    assert "a random encoder" not in said[-1]


def test_epochs_replace_every_published_number(run):
    (score,), _ = semi(run, Tuned(labels=(0.02,), preset="byol", epochs=1))
    assert score["settings"]["epochs"] == score["settings"]["epochs_with_few"] == (1,)
