"""Transfer by regression and by fine-tuning."""

import json
import math
from pathlib import Path

import pytest
import torch
from evaluating import evaluate
from interruption import interrupt_fit
from transfer_layouts import write_flowers102, write_pets, write_voc2007

from hardpair import build_encoder
from hardpair.data.transfer import TRANSFER_SETS
from hardpair.errors import UserError
from hardpair.evaluate import Settings, transfer
from hardpair.evaluate.context import Context
from hardpair.evaluate.evaluate import CONTROLS
from hardpair.evaluate.finetune import FineTuner
from hardpair.evaluate.transfer import GRIDS, PENALTIES, TransferData, TuningGrid, grid_of
from hardpair.protocol_settings import Transferred

FINETUNE = Settings(transferred=Transferred(("pets", "voc2007"), finetune=True, grid="tiny"))


@pytest.fixture
def sets(tmp_path, monkeypatch):
    """Three small sets on disk; the other four are missing."""
    monkeypatch.setattr("torchvision.datasets.flowers102.check_integrity", lambda path, _: Path(path).is_file())
    monkeypatch.setattr(transfer, "PENALTIES", PENALTIES[::11])
    tiny = TuningGrid(rates=(0.05,), weight_decays=(0.0, 1e-3), steps=3, batch_size=8)
    monkeypatch.setitem(GRIDS, "tiny", tiny)
    for write in (write_pets, write_voc2007, write_flowers102):
        made = write(tmp_path / "sets")
        name = next(name for name, facts in TRANSFER_SETS.items() if facts.title == made.wanted.title)
        monkeypatch.setitem(TRANSFER_SETS, name, made.wanted)
    return tmp_path / "sets"


def test_transfer_runs_what_is_there_and_marks_what_is_missing(run, sets):
    scores, said = evaluate(run, "transfer", data_root=sets)
    assert [score["settings"]["set"] for score in scores] == ["pets", "voc2007", "flowers102"]
    assert [list(score["metrics"]) for score in scores] == [["mean_per_class"], ["map11"], ["mean_per_class"]]
    assert [score["data"]["test"]["images"] for score in scores] == [9, 6, 5]
    assert all(score["chosen"]["encoder"]["strength"] in PENALTIES for score in scores)
    assert said[-1].count("missing") == 2 * 4
    assert sum("this folder should hold" in text for text in said) == 4


def test_transfer_without_any_set_is_one_line(run, tmp_path):
    with pytest.raises(UserError, match="--data-root"):
        evaluate(run, "transfer", data_root=tmp_path / "nothing")


def test_transfer_by_fine_tuning(run, sets, monkeypatch):
    used = []
    fit = FineTuner.fit

    def spy(self, images, tuning, *, label):
        used.append((images.name, len(images)))
        return fit(self, images, tuning, label=label)

    monkeypatch.setattr(FineTuner, "fit", spy)
    scores, _ = evaluate(run, "transfer", settings=FINETUNE, data_root=sets)
    assert used[:3] == used[3:6] == [("pets/train", 36)] * 2 + [("pets/train+validation", 42)]
    assert used[6:9] == used[9:] == [("voc2007/train", 5)] * 2 + [("voc2007/train+validation", 9)]
    assert [score["settings"]["form"] for score in scores] == ["finetune"] * 2
    assert all(score["chosen"]["encoder"]["weight_decay"] in (0.0, 1e-3 / 0.05) for score in scores)


def test_crops_are_cut_from_squares_as_large_as_those_of_pretraining(sets, tmp_path):
    """Features are of the whole square, as published."""
    encoder = build_encoder("resnet10", width=1 / 16, small_images=False)
    context = Context(tmp_path, encoder, "", 24, 0, "test", sets, torch.device("cpu"), print, trained_at=32)
    sizes = {}
    for finetune in (False, True):
        data = TransferData("pets", context, Transferred(("pets",), finetune=finetune))
        every = [*data.used().values(), data.train_and_validation()]
        sizes[finetune] = [(images.size, images.shown) for images in every]
    assert sizes == {False: [(24, 0)] * 4, True: [(32, 24), (28, 24), (28, 24), (32, 24)]}


def test_transfer_that_was_stopped_continues_with_the_rest(run, sets, monkeypatch):
    """Two candidates and a last training for either encoder: six per set."""
    with monkeypatch.context() as patch:
        fits = interrupt_fit(patch, 7)
        with pytest.raises(KeyboardInterrupt):
            evaluate(run, "transfer", settings=FINETUNE, data_root=sets)
    pets = json.loads((run / "scores.jsonl").read_text())
    CONTROLS.clear()  # as in another process
    with monkeypatch.context() as patch:
        rest = interrupt_fit(patch, None)
        scores, _ = evaluate(run, "transfer", settings=FINETUNE, data_root=sets)
    assert (len(fits), len(rest)) == (7, 5)
    assert [scores[0][name] for name in ("metrics", "control", "chosen")] == [
        pets[name] for name in ("metrics", "control", "chosen")
    ]
    CONTROLS.clear()
    undisturbed, _ = evaluate(run, "transfer", settings=FINETUNE, data_root=sets)
    assert [score["metrics"] for score in scores] == [score["metrics"] for score in undisturbed]
    assert [score["control"] for score in scores] == [score["control"] for score in undisturbed]


def test_on_validation_no_test_image_is_opened(run, sets):
    for file in (sets / "oxford-iiit-pet" / "images").glob("*_test*"):
        file.unlink()
    asked = Settings(transferred=Transferred(("pets",)))
    (score,), _ = evaluate(run, "transfer", settings=asked, data_root=sets, on="validation")
    assert score["data"]["test"]["name"] == "pets/validation"
    assert score["metrics"]["mean_per_class"] == score["chosen"]["encoder"]["validation"]


def test_grids_are_the_published_ones():
    published = GRIDS["published"].candidates(5_000)
    assert len(published) == 56
    assert {round(math.log10(t.learning_rate), 6) for t in published} == {-4, -3.5, -3, -2.5, -2, -1.5, -1}
    assert max(t.weight_decay * t.learning_rate for t in published) == pytest.approx(1e-3)
    assert {(t.steps, t.batch_size) for t in published} == {(20_000, 256)}
    assert grid_of(Transferred(grid="published", steps=9)).steps == 9
    assert (len(PENALTIES), PENALTIES[0], PENALTIES[-1]) == (45, 1e5, pytest.approx(1e-6))
