"""Encoders from elsewhere are evaluated, reported and repeated as those of runs are."""

import json
import re
import shlex
from html import unescape
from pathlib import Path

import pytest
import torch
from evaluating import evaluate
from safetensors.torch import save_file

import hardpair as hp
from hardpair.cli import run_verb
from hardpair.errors import UserError
from hardpair.evaluate.imported import is_run
from hardpair.report.scores import summary_table

DATA = "sample:300"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def resnet(tmp_path, finished_run):
    """The encoder of a run, as a file of its own."""
    return save(hp.load_encoder(finished_run).trunk.state_dict(), tmp_path / "my weights.safetensors")


@pytest.fixture
def vit(tmp_path):
    torch.manual_seed(0)
    return save(hp.build_encoder("test_vit", image_size=32).trunk.state_dict(), tmp_path / "vit.pt")


def save(state, path):
    save_file(state, path) if path.suffix == ".safetensors" else torch.save(state, path)
    return path


def scores(run):
    lines = [json.loads(line) for line in (Path(run) / "scores.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in ("date", "seconds")} for line in lines]


def printed(run):
    html = hp.Run(run).report().read_text(encoding="utf-8")
    (code,) = re.findall("<pre><code>(.*?)</code>", html, re.DOTALL)
    return [shlex.split(line) for line in unescape(code).splitlines()]


def test_scores_are_those_of_the_run_it_comes_from(resnet, run):
    imported = hp.open_run(resnet, data=DATA, image_size=8)
    assert re.fullmatch(r"runs/my-weights-[0-9a-f]{8}", str(imported.folder))
    mine = imported.evaluate("knn")["knn"]
    theirs = hp.Run(run).evaluate("knn", data=DATA)["knn"]
    assert mine["top1"] == theirs["top1"]
    assert mine["random_top1"] == theirs["random_top1"]
    assert hp.open_run(resnet, data=DATA, image_size=8).folder == imported.folder
    state = {name: value + 0.01 for name, value in hp.load_encoder(resnet).trunk.state_dict().items()}
    assert hp.open_run(save(state, resnet), data=DATA).folder != imported.folder  # other weights, other scores


@pytest.mark.parametrize(
    "options",
    [
        "'my weights.safetensors' --image-size 8",
        "'my weights.safetensors' --image-size 16 --precision bfloat16",
        "vit.pt --encoder test_vit --image-size 32",
    ],
)
def test_the_printed_commands_run_and_give_the_same_scores(resnet, vit, options):
    words = ["evaluate", *shlex.split(options), "--data", DATA, "--protocol", "knn", "linear"]
    assert run_verb(words) == 0
    (run,) = Path("runs").iterdir()
    first = scores(run)
    assert [score["protocol"] for score in first] == ["knn", "linear"]
    assert all(score.get("precision") == ("bfloat16" if "bfloat16" in options else None) for score in first)
    commands = printed(run)
    assert [command[:2] for command in commands] == [["hardpair", "evaluate"]] * 2
    for command in commands:
        assert run_verb(command[1:]) == 0
    assert scores(run) == first * 2
    assert list(Path("runs").iterdir()) == [run]


def test_a_size_that_the_encoder_cannot_take_is_refused(vit):
    run = hp.open_run(vit, data=DATA, encoder="test_vit", image_size=32)
    with pytest.raises(UserError, match=r"^image_size: test_vit cannot take views of 40 px.* 32 px and 48 px$"):
        run.evaluate("knn", image_size=40)


def test_files_without_a_suffix_are_files(finished_run, tmp_path):
    file = save(hp.load_encoder(finished_run).trunk.state_dict(), tmp_path / "checkpoint")
    assert hp.open_run(file, data=DATA, image_size=8).folder.name.startswith("checkpoint-")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("runs/demo", True),
        ("runs/demo-v1.5", True),
        ("timm:resnet18", False),
        ("weights.safetensors", False),
        ("weights.pth.tar", False),
        ("vit.pt", False),
        (".", True),
    ],
)
def test_runs_and_files_are_told_apart(vit, source, expected):
    assert is_run(source) is expected


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("vit.pt", "data: vit.pt is no run with images of its own; give labelled images with --data FOLDER"),
        ("timm:test_vit", "data: timm:test_vit is no run"),
        ("vit.pt --data sample:300", "it belongs to; say so with --name (of evaluate: --encoder)"),
        ("vit.pt --data sample:300 --encoder test_vitt", "did you mean test_vit"),
        ("vit.pt --data sample:300 --encoder resnet18", "0 of 100 tensors match"),
        ("nothing.pt --data sample:300", "nothing.pt"),
        ("timm:test_vitt --data sample:300", "did you mean test_vit"),
        ("runs/nowhere --data sample:300", "runs/nowhere"),
        ("runs/nowhere --encoder resnet18", "encoder: a run knows its encoder"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(vit, words, said):
    with pytest.raises(UserError) as caught:
        run_verb(["evaluate", *words.split()])
    assert said in str(caught.value)
    assert str(caught.value).isprintable()
    assert not Path("runs").exists()


def test_transfer_alone_needs_no_data(vit):
    """Its sets have images of their own, so --data would be refused."""
    words = "vit.pt --encoder test_vit --image-size 32 --protocol transfer --sets pets"
    with pytest.raises(UserError, match="none of the transfer sets"):
        run_verb(["evaluate", *words.split()])
    (run,) = Path("runs").iterdir()
    with pytest.raises(UserError, match="--data FOLDER"):
        run_verb(["evaluate", str(run)])


class TestPrecision:
    def test_scores_and_features(self, run, monkeypatch):
        cache = Path("cache")
        monkeypatch.setenv("HARDPAIR_CACHE", str(cache))
        (plain,), _ = evaluate(run, "knn", data=DATA)
        before = set((cache / "features").iterdir())
        (half,), _ = evaluate(run, "knn", data=DATA, precision="bfloat16")
        assert "precision" not in plain
        assert half["precision"] == "bfloat16"
        assert half["metrics"]["top1"] == pytest.approx(plain["metrics"]["top1"], abs=10)
        assert half["recipe_hash"] == plain["recipe_hash"]
        added = set((cache / "features").iterdir()) - before
        assert len(added) == len(before)  # of the encoder and of the control, train and test
        evaluate(run, "knn", data=DATA)
        evaluate(run, "knn", data=DATA, precision="bfloat16")
        assert set((cache / "features").iterdir()) == before | added

    def test_features_are_float32_and_rounded(self, run):
        from hardpair.evaluate.features import features_of

        encoder, images = hp.load_encoder(run), hp.Run(run).images(DATA)
        plain = features_of(encoder, images, torch.device("cpu"))
        encoder.precision = "bfloat16"
        half = features_of(encoder, images, torch.device("cpu"))
        assert half.dtype == plain.dtype == torch.float32
        assert 0 < (half - plain).norm() < 0.05 * plain.norm()

    @pytest.mark.parametrize("has", [True, False])
    def test_auto_is_what_the_hardware_has(self, run, monkeypatch, has):
        monkeypatch.setattr("hardpair.precision.has_bfloat16", lambda _: has)
        hp.Run(run).evaluate("knn", data=DATA, precision="auto")
        assert scores(run)[-1].get("precision") == ("bfloat16" if has else None)
        with pytest.raises(UserError, match=r"^precision: must be float32, bfloat16 or auto"):
            hp.Run(run).evaluate("knn", data=DATA, precision="float16")

    def test_the_report_repeats_it(self, run):
        hp.Run(run).evaluate("knn", data=DATA, precision="bfloat16")
        hp.Run(run).evaluate("knn", data=DATA)
        first, second = (command for command in printed(run) if command[1] == "evaluate")
        assert shlex.join(first).count("--precision bfloat16") == 1
        assert "--precision" not in second
        page = (run / "report.html").read_text(encoding="utf-8")
        assert page.count(", in bfloat16.") == 1
        assert summary_table(run).count("knn k=200 bfloat16") == 2  # top-1 and top-5
        assert run_verb([first[1], str(run), *first[3:]]) == 0
        assert scores(run)[2] == scores(run)[0]


def test_several_processes_take_the_folder_and_not_the_file(resnet, monkeypatch):
    """One of them would write it while the others read."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UserError, match="without torchrun"):
        hp.open_run(resnet, data=DATA)
    assert not Path("runs").exists()
