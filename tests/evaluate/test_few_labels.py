"""Few labels, and what is taught to another network with the rest of the images."""

import json
import math
from dataclasses import replace

import pytest
import torch
from judging import CPU, QUICK, judge
from safetensors.torch import load_file

from hardpair import build_encoder, load_encoder
from hardpair.data import open_images
from hardpair.errors import UserError
from hardpair.evaluate import Settings
from hardpair.evaluate.distill import Distillation, Distilling, distillation_loss
from hardpair.evaluate.features import outputs
from hardpair.evaluate.semi import FewLabels
from hardpair.evaluate.trial import Bench
from hardpair.evaluate.tuned import FineTuner
from hardpair.models import Classifier, mlp, save_head_layer
from hardpair.recipes.tuning import PRESETS, Tuning
from hardpair.train.finetune import DivergedError


def test_few_labels_are_counted_and_the_number_kept(run):
    few = FewLabels((0.1,), "simclr", QUICK, batch_size=50)
    (score,), said = judge(run, "semi", Settings(few_labels=few))
    assert score["labelled_images"] == score["data"]["train"]["images"] == 100
    assert "100 labelled images of 1,000" in said[0]
    assert score["settings"] | {"labels": 0.1, "preset": "simclr", "batch_size": 50} == score["settings"]
    assert score["chosen"]["encoder"] == {"learning_rate": pytest.approx(0.05 * 50 / 256), "steps": 8}
    assert score["metrics"].keys() == score["control"].keys() == {"top1", "top5"}
    assert json.loads((run / "scores.jsonl").read_text()) == json.loads(json.dumps(score))


@pytest.mark.slow
def test_the_same_random_encoder_is_judged_once(run, monkeypatch):
    """Other settings, or a layer of the run's own head, make it another one."""
    fits = []
    fit = FineTuner.fit

    def spy(self, images, tuning, *, label):
        fits.append(tuning.steps)
        return fit(self, images, tuning, label=label)

    monkeypatch.setattr(FineTuner, "fit", spy)

    def control(share, preset=QUICK):
        few = FewLabels((share,), "simclr", preset, batch_size=50)
        return judge(run, "semi", Settings(few_labels=few))[0][0]["control"]

    assert control(0.02) == control(0.02)
    assert len(fits) == 3
    control(0.04)
    assert len(fits) == 5
    for count in (8, 11):  # one layer, and another: the encoder twice each, the random one once
        save_head_layer(mlp(load_encoder(run).num_features, 16, 8)[0], run)
        for _ in range(2):
            control(0.02, replace(QUICK, keep_head_layer=True))
        assert len(fits) == count


def test_fine_tuning_trains_a_copy(run):
    images, encoder = open_images("sample", "test", size=8, root=run), load_encoder(run)
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    network = FineTuner(encoder, 0, CPU).fit(images, Tuning("sgd", 0.1, 100, steps=2), label="")
    assert all(torch.equal(before[name], tensor) for name, tensor in encoder.state_dict().items())
    assert not encoder.training
    changed = network.encoder.state_dict()
    assert not any(torch.equal(before[name], changed[name]) for name, _ in encoder.named_parameters())
    assert not torch.equal(before["trunk.bn1.running_mean"], changed["trunk.bn1.running_mean"])  # in training mode


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
    preset = replace(QUICK, rates=(0.05, 1e-6))
    (score,), _ = judge(run, "semi", Settings(few_labels=FewLabels((0.1,), "two", preset, batch_size=50)))
    assert [count for count, _ in used] == [80, 80, 100] * 2  # for the encoder, and for the control
    better = max((0, 1), key=lambda candidate: held_out[candidate])  # of the two rates
    assert score["chosen"]["encoder"]["learning_rate"] == used[better][1] == used[2][1]
    assert score["settings"]["held_share"] == 0.2


def test_a_rate_cannot_be_chosen_with_one_label_a_class(run):
    few = FewLabels((0.002,), "byol", PRESETS["byol"])
    with pytest.raises(UserError, match="preset: byol chooses among rates, but no class has two"):
        judge(run, "semi", Settings(few_labels=few))


def test_fine_tuning_from_the_heads_first_layer(run, monkeypatch):
    few = FewLabels((0.01,), "simclrv2", replace(PRESETS["simclrv2"], epochs=(1,), epochs_with_few=(1,)))
    with pytest.raises(UserError, match="kept no layer of its head"):
        judge(run, "semi", Settings(few_labels=few))
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
    (score,), _ = judge(run, "semi", Settings(few_labels=few))
    assert score["settings"]["keep_head_layer"] is True
    own, random = began
    assert torch.equal(own, layer[0].weight)
    assert own.shape == random.shape
    assert not torch.equal(own, random)


def test_labels_that_were_seen_are_mentioned(run):
    recipe = json.loads((run / "recipe.json").read_text())
    (run / "recipe.json").write_text(json.dumps({**recipe, "method": "supervised"}))
    (score,), said = judge(run, "knn", Settings())
    assert score["labels_seen"] is True
    assert "trained with labels" in said[0]
    with pytest.raises(UserError, match=r"semi: .* was trained with all the labels"):
        judge(run, "semi", Settings())


def test_a_control_that_diverges_costs_no_score(run, monkeypatch):
    fit = FineTuner.fit

    def fail_for_the_control(self, images, tuning, *, label):
        if self.encoder.step == 0:  # never trained
            raise DivergedError("here")
        return fit(self, images, tuning, label=label)

    monkeypatch.setattr(FineTuner, "fit", fail_for_the_control)
    (score,), said = judge(run, "semi", Settings(few_labels=FewLabels((0.1,), "simclr", QUICK, batch_size=50)))
    assert score["control"] == {}
    assert score["metrics"]["top1"] > 12
    assert "a random encoder" not in said[-1]


def test_an_unknown_protocol_is_refused(run):
    with pytest.raises(UserError, match="there is no 'smi'; did you mean semi"):
        judge(run, "smi", Settings())


def test_the_learner_of_a_distillation_is_kept(run):
    few = FewLabels((0.1,), "simclr", QUICK, batch_size=50)
    distilling = Distilling("resnet14", 1 / 16, learner_epochs=1, learner_batch_size=250)
    (score,), _ = judge(run, "distill", Settings(few_labels=few, distilling=distilling))
    folder = run / "distilled-0.1-resnet14-0.0625x"
    assert load_encoder(folder).settings["name"] == "resnet14"
    assert load_file(folder / "classifier.safetensors")["weight"].shape == (10, load_encoder(folder).num_features)
    assert json.loads((folder / "classes.json").read_text())[0] == "airplane"
    assert (score["settings"]["batch_size"], score["settings"]["learner_batch_size"]) == (50, 250)
    assert score["settings"]["temperature"] == 1.0
    assert score["settings"]["shape"]["name"] == "resnet14"
    assert score["data"]["unlabelled"]["images"] == 1000
    assert "taught_by_top1" in score["chosen"]["encoder"]


def test_a_learner_learns_from_answers_alone(tmp_path):
    images = open_images("sample", "test", size=8, root=tmp_path)
    shuffled = replace(images, labels=images.labels.roll(1))
    torch.manual_seed(0)
    encoder = build_encoder("resnet10", width=1 / 16, small_images=True)
    taught_by = Classifier(encoder, 10).eval()
    torch.nn.init.normal_(taught_by.linear.weight)
    bench = Bench(
        tmp_path, encoder, source="", size=8, seed=0, on="test", root=tmp_path, device=CPU, say=print
    )  # fmt: skip
    tuning = Tuning("lars", 1.0, 100, steps=30)
    start = None  # only a whole distillation begins with labels
    learners = [
        Distillation(bench, start, some, encoder.settings, 1.0, tuning).teach(taught_by) for some in (images, shuffled)
    ]
    assert all(map(torch.equal, learners[0].state_dict().values(), learners[1].state_dict().values()))
    answers, learned = (outputs(network, images, CPU).argmax(1) for network in (taught_by, learners[0]))
    assert (answers == learned).float().mean() > 0.3


def test_distillation_loss_is_the_formula():
    torch.manual_seed(0)
    scores, answers, t = torch.randn(5, 3, dtype=torch.float64), torch.randn(5, 3, dtype=torch.float64), 0.3
    total = 0.0
    for s, a in zip(scores.tolist(), answers.tolist(), strict=True):
        p = [math.exp(x / t) for x in a]
        q = [math.exp(x / t) for x in s]
        total -= sum(pi / sum(p) * math.log(qi / sum(q)) for pi, qi in zip(p, q, strict=True))
    assert distillation_loss(scores, answers, t).item() == pytest.approx(t**2 * total / 5)
