"""Protocols that train: few labels, distillation, a probe on augmented images, transfer."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transfer_layouts import write_flowers102, write_pets, write_voc2007

from hardpair import build_encoder, load_encoder
from hardpair.data import open_images
from hardpair.data.transfer import TRANSFER_SETS
from hardpair.errors import UserError
from hardpair.evaluate import Settings, evaluate_run, transfer
from hardpair.evaluate.distill import Distillation, Distilling, distillation_loss
from hardpair.evaluate.features import outputs
from hardpair.evaluate.probe import Probes, Probing, _train
from hardpair.evaluate.semi import FewLabels
from hardpair.evaluate.transfer import GRIDS, STRENGTHS, Grid, Transfer
from hardpair.evaluate.trial import Bench
from hardpair.evaluate.tuned import FineTuner, label_loss
from hardpair.models import Classifier, mlp, save_head_layer
from hardpair.recipes.tuning import PRESETS, Tuning
from hardpair.train.tuner import DivergedError

CPU = torch.device("cpu")
QUICK = replace(PRESETS["simclr"], epochs=(4,), epochs_with_few=(4,))


@pytest.fixture
def run(finished_run, tmp_path):
    return shutil.copytree(finished_run, tmp_path / "run")


def judge(run, protocol, settings, **changes):
    said = []
    options = {"data_root": run, "device": CPU, "say": said.append, **changes}
    return evaluate_run(run, [protocol], settings=settings, **options), said


def test_few_labels_are_counted_and_the_number_kept(run):
    few = FewLabels((0.1,), "simclr", QUICK, batch_size=50)
    (score,), said = judge(run, "semi", Settings(few_labels=few))
    assert score["labelled_images"] == score["data"]["train"]["images"] == 500
    assert "500 labelled images of 5,000" in said[0]
    assert score["settings"] | {"labels": 0.1, "preset": "simclr", "batch_size": 50} == score["settings"]
    assert score["chosen"]["encoder"] == {"learning_rate": pytest.approx(0.05 * 50 / 256), "steps": 40}
    assert score["metrics"].keys() == score["control"].keys() == {"top1", "top5"}
    assert score["metrics"]["top1"] > 12
    assert json.loads((run / "scores.jsonl").read_text()) == json.loads(json.dumps(score))


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
    used = []
    fit = FineTuner.fit

    def spy(self, images, tuning, *, label):
        used.append((len(images), tuning.learning_rate, images.digest()))
        return fit(self, images, tuning, label=label)

    monkeypatch.setattr(FineTuner, "fit", spy)
    preset = replace(QUICK, rates=(0.05, 1e-6))
    (score,), _ = judge(run, "semi", Settings(few_labels=FewLabels((0.1,), "two", preset, batch_size=50)))
    assert [count for count, *_ in used] == [400, 400, 500] * 2  # for the encoder, and for the control
    assert score["chosen"]["encoder"]["learning_rate"] == pytest.approx(0.05 * 50 / 256)
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
    assert score["data"]["unlabelled"]["images"] == 5000
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


def test_distillation_loss_is_the_formula():
    torch.manual_seed(0)
    scores, answers, t = torch.randn(5, 3, dtype=torch.float64), torch.randn(5, 3, dtype=torch.float64), 0.3
    total = 0.0
    for s, a in zip(scores.tolist(), answers.tolist(), strict=True):
        p = [math.exp(x / t) for x in a]
        q = [math.exp(x / t) for x in s]
        total -= sum(pi / sum(p) * math.log(qi / sum(q)) for pi, qi in zip(p, q, strict=True))
    assert distillation_loss(scores, answers, t).item() == pytest.approx(t**2 * total / 5)


def test_label_loss_of_several_things_an_image():
    scores, signs = torch.tensor([[2.0, -1.0], [0.5, 3.0]]), torch.tensor([[1, 0], [-1, 1]])
    expected = (math.log1p(math.exp(-2)) + math.log1p(math.exp(0.5)) + math.log1p(math.exp(-3))) / 3
    assert label_loss(scores, signs).item() == pytest.approx(expected)


def test_rates_trained_side_by_side_are_as_if_trained_alone(tmp_path):
    images = open_images("sample", "test", size=8, root=tmp_path).select(torch.arange(100))
    torch.manual_seed(0)
    encoder = build_encoder("resnet10", width=1 / 16, small_images=True).eval()
    probing = Probing(batch_size=25, epochs=3)
    rows = torch.arange(0, 100, 2)
    both = _train(encoder, images.select(rows), probing, (0.4, 0.1), seed=0, device=CPU)
    alone = _train(encoder, images.select(rows), probing, (0.1,), seed=0, device=CPU)
    torch.testing.assert_close(both.linear.weight.unflatten(0, (2, 10))[1], alone.linear.weight)
    assert isinstance(both, Probes)
    assert all(map(torch.equal, both.encoder.state_dict().values(), encoder.state_dict().values()))


def test_the_probe_scores_and_names_its_rate(run):
    probing = Probing(rates=(0.0, 0.4), batch_size=250, epochs=2, held_share=0.2)
    (score,), _ = judge(run, "linear", Settings(probing=probing))
    assert score["settings"]["form"] == "augmented"
    assert score["chosen"]["encoder"] == {"rate": 0.4}
    assert score["metrics"]["top1"] > 12


@pytest.fixture
def sets(tmp_path, monkeypatch):
    """Three small sets on disk; the other four are missing."""
    monkeypatch.setattr("torchvision.datasets.flowers102.check_integrity", lambda path, _: Path(path).is_file())
    monkeypatch.setattr(transfer, "STRENGTHS", STRENGTHS[::11])
    for write in (write_pets, write_voc2007, write_flowers102):
        made = write(tmp_path / "sets")
        name = next(name for name, facts in TRANSFER_SETS.items() if facts.title == made.wanted.title)
        monkeypatch.setitem(TRANSFER_SETS, name, made.wanted)
    return tmp_path / "sets"


def test_transfer_runs_what_is_there_and_marks_what_is_missing(run, sets):
    scores, said = judge(run, "transfer", Settings(), data_root=sets)
    assert [score["settings"]["set"] for score in scores] == ["pets", "voc2007", "flowers102"]
    assert [list(score["metrics"]) for score in scores] == [["mean_per_class"], ["map11"], ["mean_per_class"]]
    assert [score["data"]["test"]["images"] for score in scores] == [9, 6, 5]
    assert all(score["chosen"]["encoder"]["strength"] in STRENGTHS for score in scores)
    assert said[-1].count("missing") == 2 * 4
    assert sum("this folder should hold" in text for text in said) == 4


def test_transfer_without_any_set_is_one_line(run, tmp_path):
    with pytest.raises(UserError, match="none of the transfer sets asked for is below"):
        judge(run, "transfer", Settings(), data_root=tmp_path / "nothing")


def test_transfer_by_fine_tuning(run, sets):
    grid = Grid(rates=(0.05,), weight_decays=(0.0, 1e-3), steps=3, batch_size=8)
    asked = Transfer(("pets", "voc2007"), "finetune", grid)
    scores, _ = judge(run, "transfer", Settings(transfer=asked), data_root=sets)
    assert [score["settings"]["form"] for score in scores] == ["finetune"] * 2
    assert all(score["chosen"]["encoder"]["weight_decay"] in (0.0, 1e-3 / 0.05) for score in scores)


def test_choices_by_transfer_open_no_test_image(run, sets):
    for file in (sets / "oxford-iiit-pet" / "images").glob("*_test*"):
        file.unlink()
    asked = Settings(transfer=Transfer(("pets",)))
    (score,), _ = judge(run, "transfer", asked, data_root=sets, on="validation")
    assert score["data"]["test"]["name"] == "pets/validation"
    assert score["metrics"]["mean_per_class"] == score["chosen"]["encoder"]["validation"]


def test_grids_are_the_published_ones():
    published = GRIDS["published"].candidates(5_000)
    assert len(published) == 56
    assert {round(math.log10(t.learning_rate), 6) for t in published} == {-4, -3.5, -3, -2.5, -2, -1.5, -1}
    assert max(t.weight_decay * t.learning_rate for t in published) == pytest.approx(1e-3)
    assert {(t.steps, t.batch_size) for t in published} == {(20_000, 256)}
    assert (len(STRENGTHS), STRENGTHS[0], STRENGTHS[-1]) == (45, 1e5, pytest.approx(1e-6))


def test_batch_norm_follows_as_published(tmp_path):
    images = open_images("sample", "test", size=8, root=tmp_path)
    encoder = build_encoder("resnet10", width=1 / 16, small_images=True)
    tuner = FineTuner(encoder, 0, CPU, norm_follows_epoch=True)
    network = tuner.fit(images, Tuning("sgd", 0.01, 5, steps=1), label="")  # 200 steps an epoch
    assert network.encoder.trunk.bn1.momentum == pytest.approx(10 / 200)
    network = tuner.fit(images, Tuning("sgd", 0.01, 100, steps=1), label="")
    assert network.encoder.trunk.bn1.momentum == 0.1


def test_large_images_are_tested_on_their_centre(run, tmp_path):
    def bench(small_images):
        encoder = build_encoder("resnet10", width=1 / 16, small_images=small_images)
        options = {"source": "sample", "size": 28, "seed": 0, "on": "test", "root": tmp_path, "device": CPU}
        return Bench(run, encoder, **options, say=print)

    large = bench(small_images=False)
    shown = large.centre(lambda size: large.images("test", size))
    assert torch.equal(shown.pixels, open_images("sample", "test", size=32, root=tmp_path).pixels[:, :, 2:30, 2:30])
    small = bench(small_images=True)
    assert small.centre(lambda size: small.images("test", size)).digest() == small.images("test").digest()
