"""The package from Python, as a notebook uses it."""

import threading
from pathlib import Path

import pytest
import torch
from PIL import Image

import hardpair as hp

SMALL = {"image_size": 8, "width": 1 / 16, "batch_size": 50, "epochs": 1, "head_hidden": 16, "head_outputs": 8}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return hp.pretrain("sample:200", run=str(tmp_path_factory.mktemp("api") / "run"), **SMALL)


def test_pretrain_evaluate_load(run):
    assert run.finished
    scores = run.evaluate("knn", on="validation")
    assert scores.keys() == {"knn"}
    assert {"top1", "top5", "random_top1", "random_top5"} == scores["knn"].keys()
    encoder = hp.load_encoder(run)
    assert encoder(torch.zeros(2, 3, 8, 8)).shape == (2, encoder.num_features)
    assert Path(run) == run.folder == hp.Run(str(run.folder)).folder


def test_settings_of_protocols(run):
    assert run.evaluate("knn", k=3) != run.evaluate("knn", k=50)
    for settings, said in (({"kk": 3}, "kk"), ({"labels": (0.1,)}, "labels.*semi"), ({"k": 0}, "k: must be")):
        with pytest.raises(hp.UserError, match=said):
            run.evaluate("knn", **settings)


def test_features_are_those_of_the_encoder_on_normalised_images(run):
    features = run.features()
    assert (features.shape, features.dtype) == ((200, hp.load_encoder(run).num_features), torch.float32)
    assert run.features("sample:100", split="test").shape[0] == 1000
    assert features.std() > 0


def test_files_of_features(tmp_path, run):
    for place in range(3):
        Image.new("RGB", (9, 9), (80 * place, 0, 0)).save(tmp_path / f"{place}.png")
    assert run.images(tmp_path).files == ("0.png", "1.png", "2.png")
    assert len(run.features(tmp_path)) == 3


def test_the_report(run):
    assert run.report().read_text().startswith("<!doctype html>")


def test_resume_and_a_second_run_in_the_same_place(run):
    assert hp.pretrain("sample:200", run=run, resume=True, **SMALL) == run
    with pytest.raises(hp.UserError, match="already exists"):
        hp.pretrain("sample:200", run=run, **SMALL)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"epoch": 3}, "did you mean epochs"),
        ({"treshold": 3.0}, "did you mean threshold"),
        ({"method": "simclr", "threshold": 1.0}, "threshold: neither the recipe nor simclr has it"),
        ({"method": "nobody"}, "there is no 'nobody'"),
        ({"epochs": "many"}, "epochs: must be a whole number"),
        ({"device": "tpu9"}, "'tpu9' cannot be used"),
    ],
)
def test_mistakes_are_one_line(tmp_path, settings, said):
    with pytest.raises(hp.UserError) as mistake:
        hp.pretrain("sample:200", run=tmp_path / "run", **settings)
    assert said in str(mistake.value)
    assert not (tmp_path / "run").exists()


def test_a_recipe_keeps_its_own_images_unless_others_are_given(tmp_path):
    with pytest.raises(hp.UserError, match="imagenet"):  # which are not here
        hp.pretrain(recipe="imagenet/simclr", run=tmp_path / "run")


def test_in_a_thread(tmp_path):
    """As a notebook's widget or a server would: signals belong to the main thread."""
    found = []
    work = threading.Thread(
        target=lambda: found.append(hp.pretrain("sample:200", run=tmp_path / "run", method="simclr", **SMALL_SIMCLR))
    )
    work.start()
    work.join()
    assert [run.finished for run in found] == [True]


SMALL_SIMCLR = {name: value for name, value in SMALL.items() if not name.startswith("head_")}


def test_the_loss_in_a_loop_of_ones_own():
    torch.manual_seed(0)
    network = torch.nn.Linear(5, 4)
    loss = hp.HNPMLoss(alpha_pos=1.0, alpha_neg=0.5, threshold=2.0, norm="l2")
    images = torch.randn(6, 5)
    value = loss(network(images), network(images).detach())
    value.backward()
    expected = hp.hnpm_loss(
        network(images), network(images).detach(), alpha_pos=1.0, alpha_neg=0.5, threshold=2.0, norm="l2"
    )
    assert torch.equal(value, expected["loss"])
    assert network.weight.grad.abs().sum() > 0
    assert "threshold=2.0" in repr(loss)
    assert list(loss.parameters()) == []
    with pytest.raises(TypeError, match="treshold"):
        hp.HNPMLoss(treshold=2.0)
