"""Judging a whole run, as the command does."""

import json
import shutil

import pytest
import torch
from PIL import Image

from hardpair import build_encoder, load_encoder
from hardpair.data import open_images
from hardpair.errors import UserError
from hardpair.evaluate import evaluate_run
from hardpair.evaluate.features import extract
from hardpair.evaluate.run import random_like

CPU = torch.device("cpu")


def judge(run, protocols=("knn", "linear"), **changes):
    options = {"settings": {}, "data": None, "data_root": run, "device": CPU, "say": lambda _: None, **changes}
    return evaluate_run(run, protocols, **options)


@pytest.fixture
def run(finished_run, tmp_path):
    return shutil.copytree(finished_run, tmp_path / "run")


def test_scores_carry_their_whole_protocol_and_control(run, small_recipe):
    said = []
    scores = judge(run, settings={"knn": {"k": 50}}, say=said.append)
    assert [json.loads(line) for line in (run / "scores.jsonl").read_text().splitlines()] == json.loads(
        json.dumps(scores)
    )
    nearest, regression = scores
    assert nearest["settings"] == {"k": 50, "temperature": 0.1}
    assert regression["settings"]["held_share"] == 0.2
    for score in scores:
        assert 10 < score["metrics"]["top1"] < score["metrics"]["top5"] <= 100
        assert 10 < score["control"]["top1"] < 100
        assert score["control"] != score["metrics"]
        assert score["recipe_hash"] == small_recipe.to_json()["hash"]
        assert score["data"]["test"]["images"] == 1000
        assert len(score["data"]["train"]["digest"]) == 64
        assert {"seed", "commit", "seconds", "date", "image_size"} <= score.keys()
    assert any("a random encoder" in text for text in said)
    neighbours = json.loads((run / "neighbours.json").read_text())
    assert len(neighbours["queries"]) == 8
    for query in neighbours["queries"]:
        assert len(query["neighbours"]) == len(query["control"]) == 6
        assert query["image"]["id"] not in {n["id"] for n in query["neighbours"]}


def test_scores_are_added_and_repeat(run):
    first, second = judge(run, ["knn"])[0], judge(run, ["knn"])[0]
    assert first["metrics"] == second["metrics"]
    assert first["control"] == second["control"]
    assert len((run / "scores.jsonl").read_text().splitlines()) == 2


def test_features_do_not_depend_on_the_batch(run):
    images, encoder = open_images("sample", "test", size=8, root=run), load_encoder(run)
    rows = torch.arange(990, 1000)
    torch.testing.assert_close(extract(encoder, images, CPU)[rows], extract(encoder, images.select(rows), CPU))


def test_training_mode_is_refused(run):
    images, encoder = open_images("sample", "test", size=8, root=run), load_encoder(run)
    encoder.trunk.bn1.train()
    with pytest.raises(ValueError, match="training mode"):
        extract(encoder, images, CPU)


def test_control_has_the_same_shape_and_other_weights():
    encoder = build_encoder("resnet10", width=1 / 8)
    state = torch.get_rng_state()
    control = random_like(encoder, 0)
    assert torch.equal(torch.get_rng_state(), state)
    assert [p.shape for p in control.parameters()] == [p.shape for p in encoder.parameters()]
    assert not torch.equal(next(control.parameters()), next(encoder.parameters()))


def test_unlabelled_images_cannot_judge(run, tmp_path):
    for split in ("train", "test"):
        (tmp_path / "flat" / split).mkdir(parents=True)
        for k in range(4):
            Image.new("RGB", (16, 16), (k, 0, 0)).save(tmp_path / "flat" / split / f"{k}.png")
    with pytest.raises(UserError, match="no labels"):
        judge(run, data=str(tmp_path / "flat"))
    assert not (run / "scores.jsonl").exists()


def test_no_run_is_one_line(tmp_path):
    with pytest.raises(UserError, match="holds no trained encoder"):
        judge(tmp_path)
