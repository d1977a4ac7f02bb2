"""Training from weights that exist: the encoder is theirs, the log says so, and features are the source's."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys

import pytest
import timm
import torch
from safetensors.torch import load_file, save_file

import hardpair as hp
from hardpair.cli.recipe_arguments import parse_recipe
from hardpair.errors import UserError
from hardpair.recipes import find_recipe, with_init
from hardpair.train import pretrain


@dataclasses.dataclass(frozen=True)
class NoOptions:
    """Nothing of a verb's own."""


def weights_of(run, path):
    state = hp.load_encoder(run).trunk.state_dict()
    torch.save({"state_dict": {f"module.encoder_q.{name}": value for name, value in state.items()}}, path)
    return path


@pytest.fixture
def source(finished_run, tmp_path):
    return weights_of(finished_run, tmp_path / "weights.pth")


def start(run):
    return json.loads((run / "log.jsonl").read_text().splitlines()[0])


@pytest.mark.parametrize("kind", ["run", "file"])
def test_before_the_first_step_scores_are_the_sources(small_recipe, finished_run, source, tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    init = str(shutil.copytree(finished_run, tmp_path / "source") if kind == "run" else source)
    recipe = dataclasses.replace(small_recipe, init=init)
    assert pretrain(recipe, tmp_path / "run", until=0).step == 0
    mine, theirs = (load_file(run / "encoder.safetensors") for run in (tmp_path / "run", finished_run))
    assert all(torch.equal(value, theirs[name]) for name, value in mine.items())
    opened = hp.open_run(init, data="sample:400", image_size=8 if kind == "file" else None)
    scores = [run.evaluate("knn", data="sample:400")["knn"]["top1"] for run in (hp.Run(tmp_path / "run"), opened)]
    assert scores[0] == pytest.approx(scores[1], abs=0.1)
    said = start(tmp_path / "run")["init"]
    count = len([name for name in mine if not name.endswith("num_batches_tracked")])
    assert said.startswith(f"{init}: {count} of {count} tensors of the encoder matched")
    assert ("module.encoder_q." in said) == (kind == "file")


def test_a_run_from_weights_learns_and_resumes_exactly(small_recipe, source, tmp_path):
    recipe = dataclasses.replace(small_recipe, init=str(source), data="sample:300", epochs=1)
    pretrain(recipe, tmp_path / "whole")
    for until in (1, 4, None):
        pretrain(recipe, tmp_path / "parts", resume=True, until=until)
    for file in ("encoder.safetensors", "checkpoints/000000006/state.safetensors"):
        assert (tmp_path / "whole" / file).read_bytes() == (tmp_path / "parts" / file).read_bytes(), file
    pretrain(dataclasses.replace(recipe, init=""), tmp_path / "random")
    assert (tmp_path / "random/encoder.safetensors").read_bytes() != (
        tmp_path / "whole/encoder.safetensors"
    ).read_bytes()
    assert "init" not in start(tmp_path / "random")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"init": "nowhere.pt"}, "no such file"),
        ({"encoder": "resnet18", "width": 1.0}, "choose the --encoder"),
        ({"width": 1 / 8}, "choose the --encoder"),
        ({"encoder": "test_vit", "image_size": 32, "width": 1.0, "small_images": False}, "choose the --encoder"),
        ({"method": "cmc", "settings": {}, "width": 1 / 8}, "init: "),
    ],
)
def test_what_does_not_fit_is_refused_before_any_work(small_recipe, source, tmp_path, changes, words):
    with pytest.raises(UserError, match=words) as caught:
        pretrain(dataclasses.replace(small_recipe, **{"init": str(source), **changes}), tmp_path / "run")
    assert str(caught.value).isprintable()
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("method", "settings"), [("cmc", {"negatives": 0}), ("cpc", {"patch": 4})])
def test_methods_that_would_throw_the_weights_away_say_so(small_recipe, source, tmp_path, method, settings):
    fields = {"method": method, "settings": settings, "image_size": 16, "width": 1 / 8}
    pretrain(dataclasses.replace(small_recipe, width=1 / 8), tmp_path / "wide", until=0)
    recipe = dataclasses.replace(small_recipe, **fields, init=str(tmp_path / "wide"))
    with pytest.raises(UserError, match=f"^init: {method} builds an encoder of its own"):
        pretrain(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_parts_may_start_at_random(small_recipe, source, tmp_path):
    content = torch.load(source, weights_only=True)["state_dict"]
    torch.save({name: value for name, value in content.items() if ".layer4." not in name}, source)
    with pytest.raises(UserError, match="--init-may-miss"):
        pretrain(dataclasses.replace(small_recipe, init=str(source)), tmp_path / "run")
    recipe = dataclasses.replace(small_recipe, init=str(source), init_may_miss="layer4, fc")
    pretrain(recipe, tmp_path / "run", until=0)
    assert "start at random, as allowed" in start(tmp_path / "run")["init"]


def test_the_command_line_takes_over_the_encoder(source, finished_run):
    for init in (source, finished_run):
        recipe, _ = parse_recipe(["--init", str(init)], NoOptions, "pretrain", "Train.")
        assert (recipe.encoder, recipe.width, recipe.small_images) == ("resnet10", 1 / 16, True)
        assert recipe.init == str(init)
    recipe, _ = parse_recipe([f"--init={source}", "--width", ".5"], NoOptions, "pretrain", "Train.")
    assert recipe.width == 0.5  # what is given has the last word
    recipe, _ = parse_recipe(["--init", "timm:test_vit.r160_in1k"], NoOptions, "pretrain", "Train.")  # no download
    assert (recipe.encoder, recipe.width, recipe.small_images) == ("test_vit", 1.0, False)
    with pytest.raises(UserError, match="no such file or run"):
        parse_recipe(["--init", "nowhere"], NoOptions, "pretrain", "Train.")


def test_weights_that_show_no_encoder_leave_the_recipe_s(tmp_path):
    save_file({"a": torch.zeros(1)}, tmp_path / "a.safetensors")
    recipe = find_recipe("demo")
    assert with_init(recipe, str(tmp_path / "a.safetensors")) == dataclasses.replace(
        recipe, init=str(tmp_path / "a.safetensors")
    )


def test_a_plan_needs_no_weights(monkeypatch, capsys, source):
    """Only shapes count."""
    monkeypatch.setattr("hardpair.train.step.read_weights", None)
    from hardpair.cli import run_verb

    assert run_verb(["plan", "demo/simclr", "--init", str(source), "--data", "sample:200", "--batch-size", "20"]) == 0
    assert "resnet10 of width 0.0625" in capsys.readouterr().out


NAME = "test_vit.r160_in1k"
TRAIN = """
import hardpair as hp, torch
source = hp.load_encoder("timm:{name}")
run = hp.pretrain("sample:40", recipe="demo/simclr", init="timm:{name}", image_size=32, view_size=1.0, batch_size=20,
    epochs=1, learning_rate=0.0, run="run", device="cpu")
torch.save([source.settings, source(torch.ones(1, 3, 160, 160))], "source.pt")
try:
    hp.load_encoder("timm:test_vit2")
except hp.UserError as error:
    print("REFUSED", error)
"""


@pytest.fixture
def hub(tmp_path):
    """A cache as huggingface_hub lays it out, with weights of our own, and the environment that uses it alone."""
    torch.manual_seed(0)
    model = timm.create_model("test_vit", pretrained=False).eval()
    torch.nn.init.normal_(model.pos_embed)
    folder = tmp_path / "home/hub" / f"models--timm--{NAME}"
    (folder / "snapshots/abc").mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs/main").write_text("abc")
    save_file(model.state_dict(), folder / "snapshots/abc/model.safetensors")
    return model, {**os.environ, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"}


@pytest.mark.slow
def test_pretrained_weights_of_timm(hub, tmp_path):
    """Through timm and huggingface_hub as they are, without a network: normalisation, views of another size."""
    model, environment = hub
    words = [sys.executable, "-c", TRAIN.format(name=NAME)]
    done = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (refused,) = [line for line in done.stdout.splitlines() if line.startswith("REFUSED")]
    assert refused.startswith("REFUSED encoder: timm:test_vit2: cannot be had from the network or its cache")
    config = timm.get_pretrained_cfg(NAME)
    settings, features = torch.load(tmp_path / "source.pt", weights_only=True)
    assert settings == {
        "name": "test_vit", "image_size": 160, "mean": list(config.mean), "std": list(config.std),
    }  # fmt: skip
    encoder = hp.load_encoder(tmp_path / "run")
    assert encoder.settings == {**settings, "image_size": 32}
    assert encoder.trunk.pos_embed.shape[1] == 5
    ours, theirs = normalised(encoder.scale, encoder.shift)
    model.reset_classifier(0)
    torch.testing.assert_close(features, model(theirs), rtol=1e-4, atol=1e-5)
    mine = encoder.trunk.state_dict()
    assert all(torch.equal(value, mine[name]) for name, value in model.state_dict().items() if name != "pos_embed")
    assert f"timm:{NAME}: " in start(tmp_path / "run")["init"]
    assert torch.equal(ours, torch.ones(1, 3, 160, 160))


def normalised(scale, shift):
    """An image as our views have it, and as these weights know it."""
    images = torch.ones(1, 3, 160, 160)
    return images, images * scale + shift


@pytest.mark.slow
def test_pretrained_weights_are_evaluated(hub, tmp_path):
    _, environment = hub

    def run(*words):
        return subprocess.run(
            [sys.executable, "-m", "hardpair", *words], env=environment, cwd=tmp_path, capture_output=True, text=True,
            check=False,
        )  # fmt: skip

    done = run("evaluate", f"timm:{NAME}", "--data", "sample:60", "--image-size", "32", "--protocol", "knn")
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("timm-test-vit.r160-in1k-")
    assert json.loads((folder / "scores.jsonl").read_text())["image_size"] == 32
    assert run("report", str(folder)).returncode == 0
    assert (folder / "report.html").is_file()
    done = run("evaluate", "timm:test_vit3", "--data", "sample:60")
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "encoder: timm:test_vit3: cannot be had" in done.stderr
