"""A whole comparison, in small: real runs on a handful of pictures."""

import contextlib
import io
import json
import os
import shutil
import signal
import statistics
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from hardpair import cli
from hardpair.compare.options import Compare
from hardpair.compare.run import Comparison
from hardpair.data import open_images
from hardpair.errors import UserError
from hardpair.train.trainer import Trainer

METHODS = ("hnpm", "simclr")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Noise in two classes that nothing tells apart: the linear classifier is quickly done with it."""
    folder, random = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for split, number in (("train", 150), ("test", 20)):
        for kind in ("heads", "tails"):
            (folder / split / kind).mkdir(parents=True)
            for place in range(number):
                pixels = random.integers(0, 256, (8, 8, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / split / kind / f"{place}.png")
    return folder


def words(photos: Path, out: Path, *more: str) -> list[str]:
    small = ["--width", ".0625", "--image-size", "8", "--batch-size", "25", "--budget", "1", "--seeds", "2"]
    return ["--methods", ",".join(METHODS), "--data", str(photos), *small, "--out", str(out), *more]


@pytest.fixture(scope="module")
def finished(photos, tmp_path_factory):
    """A comparison that no test changes."""
    out, said = tmp_path_factory.mktemp("compare"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said):
        patch.setenv("HARDPAIR_CACHE", str(tmp_path_factory.mktemp("cache")))
        assert cli.compare(words(photos, out)) == 0
    (out / "said.txt").write_text(said.getvalue())
    return out


@pytest.fixture
def _no_figure(monkeypatch):
    """Drawing is what takes longest."""
    monkeypatch.setattr("hardpair.compare.run.draw", lambda *_: {})


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def scores(run: Path, protocol: str) -> dict[str, float]:
    (score,) = [line for line in read_lines(run / "scores.jsonl") if line["protocol"] == protocol]
    return {"top1": score["metrics"]["top1"], "control": score["control"]["top1"]}


def stamps(out: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in out.glob("*/**/*") if path.is_file()}


def test_the_table_is_the_mean_and_deviation_of_the_scores(finished):
    text = (finished / "table.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert lines[0].split(" | ")[4:7] == ["linear top-1", "control", "gain"]
    cells = {line.strip("| ").split(" | ")[0]: line.strip("| ").split(" | ")[1:] for line in lines[2:]}
    means = []
    for method in cells:
        runs = [finished / f"{method}-b1-s{seed}" for seed in (0, 1)]
        linear, knn = ([scores(run, protocol) for run in runs] for protocol in ("linear", "knn"))
        mean, control = (statistics.fmean(score[name] for score in linear) for name in ("top1", "control"))
        spread = statistics.stdev(score["top1"] for score in linear)
        assert cells[method][3:6] == [f"{mean:.1f} ± {spread:.1f}", f"{control:.1f}", f"{mean - control:+.1f}"]
        near = [score["top1"] for score in knn]
        assert cells[method][6] == f"{statistics.fmean(near):.1f} ± {statistics.stdev(near):.1f}"
        steps = [[line for line in read_lines(run / "log.jsonl") if line["event"] == "step"] for run in runs]
        first = statistics.fmean(next(line["loss"] for line in run if line["epoch"] >= 1) for run in steps)
        last = statistics.fmean(run[-1]["loss"] for run in steps)
        assert cells[method][8] == f"{first:.3f} → {last:.3f}"
        means.append(mean)
    assert set(cells) == set(METHODS)
    assert means == sorted(means, reverse=True)


def test_the_page_says_what_was_equal_and_how_to_repeat_it(finished, photos):
    text = (finished / "table.md").read_text()
    for part in (
        "resnet10 of width 0.0625",
        "300 images of",
        "at 8 px",
        "batch 25",
        "2 seeds",
        "1 epoch",
        "demo/METHOD",
    ):
        assert part in text
    assert f"    hardpair compare --methods hnpm,simclr --data {photos}" in text
    content = json.loads((finished / "compare.json").read_text())
    assert (content["runs"], content["runs_done"], content["unit"]) == (4, 4, "epochs")
    for row in content["rows"]:
        assert [seed["seed"] for seed in row["seeds"]] == [0, 1]
        assert row["linear"]["mean"] == statistics.fmean(seed["linear"] for seed in row["seeds"])
        assert row["forwards"] == row["cost"] * row["epochs"]


def test_the_figure_is_a_picture(finished):
    with Image.open(finished / "figure.png") as image:
        assert image.format == "PNG"
        width, height = image.size
        pixels = np.asarray(image.convert("RGB"))
    assert 1200 < width < 3000
    assert 500 < height < 1500
    for colour in ((0xC1, 0x27, 0x2D), (0x00, 0x77, 0xBB)):  # of the first method and the second
        assert (pixels == colour).all(axis=2).sum() > 50
    assert ElementTree.parse(finished / "figure.svg").getroot().tag.endswith("svg")


@pytest.mark.usefixtures("_no_figure")
def test_the_same_command_again_runs_nothing(finished, photos, tmp_path, capsys):
    out = shutil.copytree(finished, tmp_path / "out")
    before = stamps(out)
    assert cli.compare(words(photos, out)) == 0
    assert stamps(out) == before
    said = capsys.readouterr().out
    assert said.count("done before") == 4
    assert max(map(len, said.splitlines()[5:-1])) <= 120, said


def test_before_each_run_a_line_says_which_and_how_much_is_left(finished):
    lines = [line for line in (finished / "said.txt").read_text().splitlines() if line.startswith("[")]
    assert [line.split(" epoch")[0] for line in lines] == [
        "[1/4] hnpm, seed 0, 1",
        "[2/4] simclr, seed 0, 1",
        "[3/4] hnpm, seed 1, 1",
        "[4/4] simclr, seed 1, 1",
    ]
    assert lines[0].endswith("forwards an image)")
    assert all(line.endswith("forwards an image); about 1 min left for all") for line in lines[1:])


@pytest.mark.usefixtures("_no_figure")
def test_stopped_in_training_goes_on_without_repeating(finished, photos, tmp_path, monkeypatch, capsys):
    """A real Ctrl-C in the second run: the others are kept as they are, and the end is that of an uninterrupted one."""
    out, one_step = shutil.copytree(finished, tmp_path / "out"), Trainer._one_step
    shutil.rmtree(out / "simclr-b1-s0")
    before = stamps(out)

    def interrupted(self: Trainer, *arguments: object) -> None:
        if self.step == 1:
            os.kill(os.getpid(), signal.SIGINT)
        one_step(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_one_step", interrupted)
        assert cli.compare(words(photos, out)) == 128 + signal.SIGINT
    assert capsys.readouterr().out.endswith("stopped; the same command goes on from there\n")
    assert cli.compare(words(photos, out)) == 0
    assert "resuming" in capsys.readouterr().out
    assert {path: stamp for path, stamp in stamps(out).items() if path in before} == before
    ours, theirs = (folder / "simclr-b1-s0" for folder in (out, finished))
    assert (ours / "encoder.safetensors").read_bytes() == (theirs / "encoder.safetensors").read_bytes()
    assert scores(ours, "linear") == scores(theirs, "linear")


@pytest.mark.usefixtures("_no_figure")
def test_stopped_while_judging_keeps_the_run(photos, tmp_path, monkeypatch):
    judge = Comparison._judge

    def interrupted(self: Comparison, *arguments: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        judge(self, *arguments)

    monkeypatch.setattr(Comparison, "_judge", interrupted)
    assert cli.compare(words(photos, tmp_path / "out")) == 128 + signal.SIGTERM
    assert json.loads((tmp_path / "out" / "compare.json").read_text())["runs_done"] == 1
    text = (tmp_path / "out" / "table.md").read_text()
    assert "1 of 4 runs so far" in text
    (row,) = [line for line in text.splitlines() if line.startswith("| hnpm")]
    assert row.startswith("| hnpm (1 of 2 seeds) |")
    assert "±" not in row


@pytest.mark.usefixtures("_no_figure")
def test_validation_judges_again_but_does_not_train_again(finished, photos, tmp_path):
    out = shutil.copytree(finished, tmp_path / "out")
    encoder = (out / "hnpm-b1-s0" / "encoder.safetensors").stat().st_mtime_ns
    more = ["--on", "validation", "--methods", "hnpm", "--seeds", "1"]
    assert cli.compare(words(photos, out, *more)) == 0
    assert (out / "hnpm-b1-s0" / "encoder.safetensors").stat().st_mtime_ns == encoder
    score = read_lines(out / "hnpm-b1-s0" / "scores.jsonl")[-1]
    assert (score["protocol"], score["on"]) == ("linear", "validation")
    (row,) = json.loads((out / "compare.json").read_text())["rows"]
    assert row["linear"] == {"mean": score["metrics"]["top1"], "std": None}


def test_scores_of_another_kind_are_not_taken(finished, photos, tmp_path):
    """Of a half-trained encoder, by other settings, on other images: the run is judged again."""
    out = shutil.copytree(finished, tmp_path / "out")
    file = out / "hnpm-b1-s0" / "scores.jsonl"
    lines = read_lines(file)
    changes = [{"step": 1}, {"on": "validation"}, {"recipe_hash": "0"}, {"settings": {"k": 3}}, {"data": {}}]
    facts = open_images(str(photos), "train", size=8, root=tmp_path).facts()
    for change in changes:
        file.write_text("".join(json.dumps({**line, **change}) + "\n" for line in lines))
        assert known_runs(photos, out, facts) == 3, change
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert known_runs(photos, out, facts) == 4
    assert known_runs(photos, out, {**facts, "digest": "other"}) == 0


def known_runs(photos: Path, out: Path, facts: dict[str, object]) -> int:
    from hardpair.compare.plan import plan_jobs

    options = cli.parse(Compare, words(photos, out), "hardpair compare")
    return len(Comparison(options, "", facts, plan_jobs(options, dict.fromkeys(METHODS, 1.0))).results)


def test_other_settings_in_the_same_place_are_refused(finished, photos, tmp_path):
    out = shutil.copytree(finished, tmp_path / "out")
    before = stamps(out)
    with pytest.raises(UserError, match="cannot resume with other settings: batch_size was 25 and is now 24"):
        cli.compare(words(photos, out, "--batch-size", "24"))
    assert stamps(out) == before


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["--methods", "hnpm,simclear"], "methods: there is no 'simclear'; did you mean simclr?"),
        (["--methods", ","], "methods: give some"),
        (["--family", "demos"], "family: there is no 'demos'; did you mean demo?"),
        (["--seeds", "0"], "seeds: must be between 1 and"),
        (["--budget", "0"], "budget: must be between 1 and"),
        (["--encoder", "resnet11"], "hnpm: encoder: there is no 'resnet11'"),
        (["--unit", "hours"], "--unit"),
        (["--on", "train"], "--on"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_begun(photos, tmp_path, monkeypatch, capsys, changes, said):
    monkeypatch.setattr("sys.argv", ["hardpair", "compare", *words(photos, tmp_path / "out", *changes)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    errors = capsys.readouterr().err
    assert stop.value.code == 2
    assert said in errors
    assert len(errors.strip().splitlines()) == 1, errors
    assert list(tmp_path.iterdir()) == []


def test_images_without_labels_are_refused_before_any_training(tmp_path, monkeypatch):
    (tmp_path / "flat").mkdir()
    for number in range(9):
        Image.new("RGB", (16, 16), (20 * number, 0, 0)).save(tmp_path / "flat" / f"{number}.png")
    with pytest.raises(UserError, match=r"test split|no labels"):
        cli.compare(words(tmp_path / "flat", tmp_path / "out"))
    with pytest.raises(UserError, match="has no labels to judge with"):
        cli.compare(words(tmp_path / "flat", tmp_path / "out", "--on", "validation"))
    assert not (tmp_path / "out").exists()


def test_help_teaches(capsys):
    with pytest.raises(SystemExit):
        cli.compare(["--help"])
    said = capsys.readouterr().out
    for part in ("--unit", "forwards", "Ctrl-C", "hardpair compare --methods all", "runs/compare"):
        assert part in said
    assert "hardpair compare" in cli.HELP
