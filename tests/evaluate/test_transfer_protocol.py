"""Transfer by regression and by fine-tuning."""

import json
import math
from pathlib import Path

import pytest
import torch
from interruption import interrupt_fit
from judging import CPU, judge
from transfer_layouts import write_flowers102, write_pets, write_voc2007

from hardpair import build_encoder
from hardpair.data import open_images
from hardpair.data.transfer import TRANSFER_SETS
from hardpair.errors import UserError
from hardpair.evaluate import Settings, transfer
from hardpair.evaluate.run import CONTROLS
from hardpair.evaluate.transfer import GRIDS, STRENGTHS, Grid, Transfer
from hardpair.evaluate.trial import Bench
from hardpair.evaluate.tuned import FineTuner, label_loss
from hardpair.recipes.tuning import Tuning


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


def test_transfer_by_fine_tuning(run, sets, monkeypatch):
    used = []
    fit = FineTuner.fit

    def spy(self, images, tuning, *, label):
        used.append((images.name, len(images)))
        return fit(self, images, tuning, label=label)

    monkeypatch.setattr(FineTuner, "fit", spy)
    grid = Grid(rates=(0.05,), weight_decays=(0.0, 1e-3), steps=3, batch_size=8)
    asked = Transfer(("pets", "voc2007"), "finetune", grid)
    scores, _ = judge(run, "transfer", Settings(transfer=asked), data_root=sets)
    assert used[:3] == used[3:6] == [("pets/train", 36)] * 2 + [("pets/train+validation", 42)]
    assert used[6:9] == used[9:] == [("voc2007/train", 5)] * 2 + [("voc2007/train+validation", 9)]
    assert [score["settings"]["form"] for score in scores] == ["finetune"] * 2
    assert all(score["chosen"]["encoder"]["weight_decay"] in (0.0, 1e-3 / 0.05) for score in scores)


def test_transfer_that_was_stopped_goes_on_with_the_rest(run, sets, monkeypatch):
    """Two candidates and a last training for either encoder: six a set."""
    grid = Grid(rates=(0.05,), weight_decays=(0.0, 1e-3), steps=3, batch_size=8)
    asked = Settings(transfer=Transfer(("pets", "voc2007"), "finetune", grid))
    with monkeypatch.context() as patch:
        fits = interrupt_fit(patch, 7)
        with pytest.raises(KeyboardInterrupt):
            judge(run, "transfer", asked, data_root=sets)
    pets = json.loads((run / "scores.jsonl").read_text())
    CONTROLS.clear()  # as in another process
    with monkeypatch.context() as patch:
        rest = interrupt_fit(patch, None)
        scores, _ = judge(run, "transfer", asked, data_root=sets)
    assert (len(fits), len(rest)) == (7, 5)
    assert [scores[0][name] for name in ("metrics", "control", "chosen")] == [
        pets[name] for name in ("metrics", "control", "chosen")
    ]
    CONTROLS.clear()
    undisturbed, _ = judge(run, "transfer", asked, data_root=sets)
    assert [score["metrics"] for score in scores] == [score["metrics"] for score in undisturbed]
    assert [score["control"] for score in scores] == [score["control"] for score in undisturbed]


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


def test_label_loss_of_several_things_an_image():
    scores, signs = torch.tensor([[2.0, -1.0], [0.5, 3.0]]), torch.tensor([[1, 0], [-1, 1]])
    expected = (math.log1p(math.exp(-2)) + math.log1p(math.exp(0.5)) + math.log1p(math.exp(-3))) / 3
    assert label_loss(scores, signs).item() == pytest.approx(expected)
