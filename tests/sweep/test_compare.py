"""A whole comparison, in small: real runs on a handful of pictures."""

import json
import statistics
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from small_sweeps import METHODS, compare_words, logged, top1

from hardpair import cli
from hardpair.errors import UserError


def test_the_table_is_the_mean_and_deviation_of_the_scores(compared):
    text = (compared / "table.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert lines[0].split(" | ")[4:7] == ["linear top-1", "control", "gain"]
    cells = {line.strip("| ").split(" | ")[0]: line.strip("| ").split(" | ")[1:] for line in lines[2:]}
    means = []
    for method in cells:
        runs = [compared / f"{method}-b1-s{seed}" for seed in (0, 1)]
        linear, near = ([top1(run, protocol) for run in runs] for protocol in ("linear", "knn"))
        mean, spread = statistics.fmean(linear), statistics.stdev(linear)
        control = statistics.fmean(top1(run, "linear", part="control") for run in runs)
        assert cells[method][3:6] == [f"{mean:.1f} ± {spread:.1f}", f"{control:.1f}", f"{mean - control:+.1f}"]
        assert cells[method][6] == f"{statistics.fmean(near):.1f} ± {statistics.stdev(near):.1f}"
        steps = [logged(run) for run in runs]
        first = statistics.fmean(next(line["loss"] for line in run if line["epoch"] >= 1) for run in steps)
        last = statistics.fmean(run[-1]["loss"] for run in steps)
        assert cells[method][8] == f"{first:.3f} → {last:.3f}"
        means.append(mean)
    assert set(cells) == set(METHODS)
    assert means == sorted(means, reverse=True)


def test_the_page_says_what_was_equal_and_how_to_repeat_it(compared, photos):
    text = (compared / "table.md").read_text()
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
    content = json.loads((compared / "compare.json").read_text())
    assert (content["runs"], content["runs_done"], content["unit"]) == (4, 4, "epochs")
    for row in content["rows"]:
        assert [seed["seed"] for seed in row["seeds"]] == [0, 1]
        assert row["linear"]["mean"] == statistics.fmean(seed["linear"] for seed in row["seeds"])
        assert row["forwards"] == row["cost"] * row["epochs"]


def test_the_figure_is_a_picture(compared):
    with Image.open(compared / "figure.png") as image:
        assert image.format == "PNG"
        width, height = image.size
        pixels = np.asarray(image.convert("RGB"))
    assert 1200 < width < 3000
    assert 500 < height < 1500
    for colour in ((0xC1, 0x27, 0x2D), (0x00, 0x77, 0xBB)):  # of the first method and the second
        assert (pixels == colour).all(axis=2).sum() > 50
    assert ElementTree.parse(compared / "figure.svg").getroot().tag.endswith("svg")


def test_before_each_run_a_line_says_which_and_how_much_is_left(compared):
    lines = [line for line in (compared / "said.txt").read_text().splitlines() if line.startswith("[")]
    assert [line.split(" epoch")[0] for line in lines] == [
        "[1/4] hnpm, seed 0, 1",
        "[2/4] simclr, seed 0, 1",
        "[3/4] hnpm, seed 1, 1",
        "[4/4] simclr, seed 1, 1",
    ]
    assert lines[0].endswith("forwards per image)")
    assert all(line.endswith("forwards per image); about 1 min left for all") for line in lines[1:])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["--methods", "hnpm,simclear"], "methods: there is no 'simclear'; did you mean simclr?"),
        (["--methods", ","], "methods: give some"),
        (["--family", "demos"], "family: there is no 'demos'; did you mean demo?"),
        (["--seeds", "0"], "seeds: must be between 1 and"),
        (["--budget", "0"], "budget: must be between 1 and"),
        (["--labels", "10"], "labels: must be between 1e-06 and 1"),
        (["--labels", "0"], "labels: must be between 1e-06 and 1"),
        (["--encoder", "resnet11"], "hnpm: encoder: there is no 'resnet11'"),
        (["--unit", "hours"], "--unit"),
        (["--on", "train"], "--on"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_begun(photos, tmp_path, monkeypatch, capsys, changes, said):
    monkeypatch.setattr("sys.argv", ["hardpair", "compare", *compare_words(photos, tmp_path / "out", *changes)])
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
        cli.compare(compare_words(tmp_path / "flat", tmp_path / "out"))
    with pytest.raises(UserError, match="no labels to evaluate"):
        cli.compare(compare_words(tmp_path / "flat", tmp_path / "out", "--on", "validation"))
    assert not (tmp_path / "out").exists()


def test_help_teaches(capsys):
    with pytest.raises(SystemExit):
        cli.compare(["--help"])
    said = capsys.readouterr().out
    for part in ("--unit", "forwards", "Ctrl-C", "hardpair compare --methods all", "runs/compare"):
        assert part in said
    assert "hardpair compare" in cli.HELP
