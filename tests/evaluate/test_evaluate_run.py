"""Evaluating a whole run, as the command does; on several ranks too."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from evaluating import CPU, QUICK, evaluate, evaluate_on_ranks
from noise_photos import write_photos
from PIL import Image
from together import together

from hardpair import Run, distributed, load_encoder
from hardpair.data import open_images
from hardpair.errors import UserError
from hardpair.evaluate import Settings
from hardpair.evaluate.context import random_like
from hardpair.evaluate.features import features_of, outputs
from hardpair.protocol_settings import Knn
from hardpair.train import pretrain
from hardpair.train.step import fresh_encoder


def test_scores_carry_their_whole_protocol_and_control(run, small_recipe):
    scores, said = evaluate(run, "knn", "linear", settings=Settings(Knn(k=50)))
    assert [json.loads(line) for line in (run / "scores.jsonl").read_text().splitlines()] == json.loads(
        json.dumps(scores)
    )
    nearest, regression = scores
    assert nearest["settings"] == {"k": 50, "temperature": 0.1}
    assert regression["settings"]["held_share"] == 0.2
    assert regression["chosen"]["encoder"]["strength"] in regression["settings"]["strengths"]
    for score in scores:
        assert score["metrics"].keys() == score["control"].keys() == {"top1", "top5"}
        assert 10 < score["metrics"]["top1"] < score["metrics"]["top5"] <= 100
        assert 10 < score["control"]["top1"] < 100
        assert score["control"] != score["metrics"]
        assert score["recipe_hash"] == small_recipe.to_json()["hash"]
        assert score["data"]["test"]["images"] == 1000
        assert len(score["data"]["train"]["digest"]) == 64
        assert score["step"] == 40
        assert {"seed", "commit", "seconds", "date", "image_size", "on"} <= score.keys()
    assert any("a random encoder" in text for text in said)
    neighbours = json.loads((run / "neighbours.json").read_text())
    assert len(neighbours["queries"]) == 8
    for query in neighbours["queries"]:
        assert len(query["neighbours"]) == len(query["control"]) == 6
        assert query["image"]["id"] not in {n["id"] for n in query["neighbours"]}


def test_long_work_says_how_far_it_is_and_of_which_encoder(run, monkeypatch, capsys):
    for name in ("QUIET_SECONDS", "LINE_SECONDS"):
        monkeypatch.setattr(f"hardpair.data.progress.{name}", 0)
    evaluate(run, "linear")
    lines = capsys.readouterr().err.splitlines()
    assert any(line.startswith("regression on 800 images: 8%  left ") for line in lines)
    labels = {line.rpartition(": ")[0] for line in (text.partition("%")[0] for text in lines)}
    ours = {label for label in labels if not label.startswith("random encoder: ")}
    assert len(ours) == 4  # features of two splits, the regressions to choose by and the last one
    assert labels - ours == {f"random encoder: {label}" for label in ours}


def test_validation_never_touches_the_test_images(run, monkeypatch):
    opened = []

    def spy(data, split, **options):
        opened.append(split)
        return open_images(data, split, **options)

    monkeypatch.setattr("hardpair.evaluate.context.open_images", spy)
    (score,), _ = evaluate(run, "knn", on="validation")
    assert set(opened) == {"train"}
    assert score["on"] == "validation"
    assert score["data"]["train"]["images"] == 800
    assert (score["data"]["test"]["name"], score["data"]["test"]["images"]) == ("sample:1000/validation", 200)
    assert not (run / "neighbours.json").exists()


def test_scores_are_added_and_repeat(run):
    ((first,), _), ((second,), _) = evaluate(run, "knn"), evaluate(run, "knn")
    assert first["metrics"] == second["metrics"]
    assert first["control"] == second["control"]
    assert len((run / "scores.jsonl").read_text().splitlines()) == 2


def test_features_do_not_depend_on_the_batch(run):
    images, encoder = open_images("sample", "test", size=8, root=run), load_encoder(run)
    rows = torch.arange(990, 1000)
    torch.testing.assert_close(features_of(encoder, images, CPU)[rows], features_of(encoder, images.select(rows), CPU))


def test_training_mode_is_refused(run):
    images, encoder = open_images("sample", "test", size=8, root=run), load_encoder(run)
    encoder.trunk.bn1.train()
    with pytest.raises(ValueError, match="training mode"):
        features_of(encoder, images, CPU)
    with pytest.raises(ValueError, match="training mode"):
        outputs(encoder, images, CPU)


def test_control_has_the_same_shape_and_is_as_training_would_begin(run, small_recipe):
    encoder, state = load_encoder(run), torch.get_rng_state()
    control = random_like(encoder, seed=small_recipe.seed, device=CPU)
    assert torch.equal(torch.get_rng_state(), state)
    assert not any(module.training for module in control.modules())
    torch.manual_seed(small_recipe.seed)
    first = fresh_encoder(small_recipe).state_dict()
    assert all(torch.equal(value, first[name]) for name, value in control.state_dict().items())
    assert not torch.equal(next(control.parameters()), next(encoder.parameters()))


def test_unlabelled_images_are_refused(run, tmp_path):
    for split in ("train", "test"):
        (tmp_path / "flat" / split).mkdir(parents=True)
        for k in range(4):
            Image.new("RGB", (16, 16), (k, 0, 0)).save(tmp_path / "flat" / split / f"{k}.png")
    with pytest.raises(UserError, match=r"no labels.*--data FOLDER"):
        evaluate(run, "knn", data=str(tmp_path / "flat"))
    assert not (run / "scores.jsonl").exists()


def test_no_run_is_one_line(tmp_path):
    with pytest.raises(UserError, match="holds no trained encoder"):
        evaluate(tmp_path, "knn")


def test_images_that_have_moved_are_one_line_that_names_data(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recipe = json.loads((run / "recipe.json").read_text())
    for name in ("gone", str(tmp_path / "gone")):
        (run / "recipe.json").write_text(json.dumps({**recipe, "data": name}))
        with pytest.raises(UserError, match=r"gone.*--data FOLDER"):
            evaluate(run, "knn")
    photos = write_photos(tmp_path / "photos")
    (score,), _ = evaluate(run, "knn", data=str(photos))
    assert score["data"]["test"]["name"] == "photos/test"
    assert score["metrics"].keys() == {"top1"}  # fewer than ten classes


def test_an_unknown_protocol_is_refused(run):
    with pytest.raises(UserError, match=r"'smi'.*did you mean semi"):
        evaluate(run, "smi")


def test_labels_seen_in_training_are_mentioned(run):
    recipe = json.loads((run / "recipe.json").read_text())
    (run / "recipe.json").write_text(json.dumps({**recipe, "method": "supervised"}))
    (score,), said = evaluate(run, "knn")
    assert score["labels_seen"] is True
    assert "labels_seen" in said[0]
    with pytest.raises(UserError, match=r"semi: .* all the labels"):
        evaluate(run, "semi")


def test_views_cut_from_larger_images_are_tested_at_their_own_size(small_recipe, tmp_path):
    """By every protocol, with the size in the score; to ask for that size changes nothing, for another does."""
    changes = {"data": "sample:200", "image_size": 32, "view_size": 0.75, "small_images": False, "zero_init": True}
    recipe = replace(small_recipe, **changes, epochs=1)
    pretrain(recipe, tmp_path / "run", checkpoint_every=10)
    settings = Settings(tuned=QUICK)
    scores, _ = evaluate(tmp_path / "run", "knn", "linear", "semi", settings=settings)
    assert {score["image_size"] for score in scores} == {24}
    for score in scores:
        assert score["data"]["test"].items() >= {"square": 28, "shown": 24}.items()
    assert [score["data"]["train"]["square"] for score in scores] == [28, 28, 32]
    (same,), _ = evaluate(tmp_path / "run", "knn", size=24)
    assert [same[name] for name in ("metrics", "data")] == [scores[0][name] for name in ("metrics", "data")]
    (other,), _ = evaluate(tmp_path / "run", "knn", size=32)
    assert "shown" not in other["data"]["test"]
    features = Run(tmp_path / "run").features(split="test")
    tested = open_images("sample", "test", size=32, root=tmp_path).tested_at(24)
    assert torch.equal(features, features_of(load_encoder(tmp_path / "run"), tested, CPU))


def scores_of(run: Path) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in (run / "scores.jsonl").read_text().splitlines()]
    return [{name: line[name] for name in ("protocol", "metrics", "control", "chosen", "data")} for line in lines]


@pytest.mark.slow
def test_three_ranks_give_the_scores_of_one(finished_run, tmp_path):
    """6,000 images are 20 and 4 batches of features, so the ranks do not have equally many of them."""
    alone, shared = (shutil.copytree(finished_run, tmp_path / name) for name in ("alone", "shared"))
    together(1, evaluate_on_ranks, alone, tmp_path / "one")
    together(3, evaluate_on_ranks, shared, tmp_path / "three")
    assert scores_of(shared) == scores_of(alone)
    assert len(scores_of(shared)) == 2
    assert (shared / "neighbours.json").read_bytes() == (alone / "neighbours.json").read_bytes()
    files = [sorted(path.name for path in (tmp_path / cache / "features").iterdir()) for cache in ("one", "three")]
    assert files[0] == files[1]
    assert all(
        (tmp_path / "one/features" / name).read_bytes() == (tmp_path / "three/features" / name).read_bytes()
        for name in files[0]
    )


def test_a_network_is_trained_by_one_process(run, monkeypatch):
    monkeypatch.setattr(distributed, "world_size", lambda: 2)
    with pytest.raises(UserError, match=r"semi: .*torchrun"):
        evaluate(run, "semi")
