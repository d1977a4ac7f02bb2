"""Whole ablations, in small: real runs on a handful of pictures."""

import json
import statistics
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from small_sweeps import END, SEEDS, STEPS, ablate_words, logged, read_lines, top1

from hardpair import cli
from hardpair.errors import UserError

NAMES = {
    "mining": {"with mining (base)": "base", "without mining": "no-mining"},
    "gradient": {"gradient blocked (base)": "base", "student gradient": "student-gradient"},
    "tau": {"tau 0.5 (base)": "base", "tau 1": "tau-1", "tau 0.999": "tau-0.999", "tau 0": "tau-0"},
}


def cells_of(out, which):
    lines = [
        line.strip("| ").split(" | ") for line in (out / f"{which}.md").read_text().splitlines() if line[:1] == "|"
    ]
    return lines[0], {cells[0]: cells[1:] for cells in lines[2:]}


WHICH = ["mining", *(pytest.param(which, marks=pytest.mark.slow) for which in NAMES if which != "mining")]


@pytest.fixture
def folder(request, which):
    return request.getfixturevalue("ablated" if which == "mining" else "ablated_all")


@pytest.mark.parametrize("which", WHICH)
def test_the_table_is_the_mean_and_deviation_of_the_scores(folder, which):
    headings, rows = cells_of(folder, which)
    assert headings[:9] == [
        "variant", "seeds", "linear top-1", "control", "knn top-1", "control", "loss", "mined", "rank",
    ]  # fmt: skip
    assert list(rows) == list(NAMES[which])
    for label, cells in rows.items():
        runs = [folder / f"{NAMES[which][label]}-s{seed}" for seed in range(SEEDS[which])]
        expected = [str(len(runs))]
        for protocol in ("linear", "knn"):
            values = [top1(run, protocol, END) for run in runs]
            spread = f" ± {statistics.stdev(values):.1f}" if len(runs) > 1 else ""
            expected.append(f"{statistics.fmean(values):.1f}{spread}")
            expected.append(f"{statistics.fmean(top1(run, protocol, END, 'control') for run in runs):.1f}")
        for name, digits in (("loss", ".3f"), ("mined", ".1%"), ("rank", ".1f")):
            expected.append(format(statistics.fmean(logged(run)[-1][name] for run in runs), digits))
        assert cells[:8] == expected
    assert ("without mining" not in rows) or rows["without mining"][6] == "100.0%"


@pytest.mark.slow
def test_the_published_figures_stand_beside_tau_and_nowhere_else(ablated_all):
    headings, rows = cells_of(ablated_all, "tau")
    assert headings[9:] == ["published, ImageNet, ResNet-50"]
    assert {label: cells[8] for label, cells in rows.items()} == {
        "tau 1": "24", "tau 0.999": "73.4", "tau 0.5 (base)": "77.1", "tau 0": "49.1",
    }  # fmt: skip
    for which in ("mining", "gradient"):
        assert len(cells_of(ablated_all, which)[0]) == 9
        assert "curves without figures" in (ablated_all / f"{which}.md").read_text()
        assert {row["published"] for row in json.loads((ablated_all / f"{which}.json").read_text())["rows"]} == {None}


def test_curves_have_a_point_for_every_judged_epoch(ablated):
    content = json.loads((ablated / "mining.json").read_text())
    assert (content["runs"], content["runs_done"], content["epochs"], content["seeds"]) == (4, 4, 2, 2)
    for row in content["rows"]:
        runs = [ablated / f"{row['name']}-s{seed}" for seed in (0, 1)]
        assert [point["epoch"] for point in row["curves"]["linear"]] == [1, 2]
        for point in row["curves"]["linear"]:
            values = [top1(run, "linear", round(point["epoch"]) * STEPS) for run in runs]
            assert (point["mean"], point["std"]) == (statistics.fmean(values), statistics.stdev(values))
        first = [statistics.fmean(x["loss"] for x in logged(run) if x["step"] <= STEPS) for run in runs]
        assert row["curves"]["loss"][0] == {"epoch": 1, "mean": statistics.fmean(first), "std": statistics.stdev(first)}
        assert len(row["curves"]["loss"]) == 2


@pytest.mark.slow
def test_of_tau_only_the_base_has_points_on_the_way(ablated_all):
    tau = {row["name"]: row for row in json.loads((ablated_all / "tau.json").read_text())["rows"]}
    assert [point["epoch"] for point in tau["tau-0"]["curves"]["linear"]] == [2]
    assert [point["epoch"] for point in tau["base"]["curves"]["linear"]] == [1, 2]


@pytest.mark.slow
def test_the_base_is_trained_once_for_all_three(ablated_all):
    assert "done before" not in (ablated_all / "mining.txt").read_text()
    for which, label in (("gradient", "gradient blocked"), ("tau", "tau 0.5")):
        lines = [line for line in (ablated_all / f"{which}.txt").read_text().splitlines() if line.startswith("[")]
        done = [line for line in lines if line.endswith("done before")]
        assert done == [f"[1/{len(NAMES[which])}] {label}, seed 0, 2 epochs: done before"]
        assert len(lines) == len(NAMES[which])
    for seed in (0, 1):
        run = ablated_all / f"base-s{seed}"
        assert [line["step"] for line in read_lines(run / "scores.jsonl")] == [STEPS, STEPS, END, END]
        assert [x["step"] for x in read_lines(run / "log.jsonl") if x["event"] in ("start", "end")] == [0, STEPS, END]
    values = [json.loads((ablated_all / f"{which}.json").read_text())["rows"][0]["seeds"][0] for which in NAMES]
    assert values[0] == values[1] == values[2]


def test_the_page_says_what_was_equal_and_how_to_repeat_it(ablated, photos):
    text = (ablated / "mining.md").read_text()
    for part in ("resnet10 of width 0.0625", "300 images of", "8 px", "batch 50", "2 seeds", "2 epochs", "demo/hnpm"):
        assert part in text
    assert f"    hardpair ablate mining --data {photos}" in text


@pytest.mark.parametrize("which", WHICH)
def test_the_end_shows_the_table_and_one_sentence(folder, which):
    said = (folder / f"{which}.txt").read_text().split("Equal for all")[-1]
    assert max(map(len, said.splitlines()[:-1])) <= 120, said
    (sentence,) = json.loads((folder / f"{which}.json").read_text())["finding"]
    assert sentence.startswith("The paper's order in linear top-1 (")
    assert sentence in " ".join(said.split())
    assert sentence in (folder / f"{which}.md").read_text()


def test_the_figure_is_a_picture(ablated):
    with Image.open(ablated / "mining.png") as image:
        assert image.format == "PNG"
        width, height = image.size
        pixels = np.asarray(image.convert("RGB"))
    assert 1200 < width < 3000
    assert 500 < height < 1500
    for colour in ((0xC1, 0x27, 0x2D), (0x00, 0x77, 0xBB)):  # of the base and of the other
        assert (pixels == colour).all(axis=2).sum() > 500
    assert ElementTree.parse(ablated / "mining.svg").getroot().tag.endswith("svg")


@pytest.mark.parametrize(
    ("which", "changes", "said"),
    [
        ("tua", [], "tua"),
        ("tau", ["--recipe", "demo/byol"], "recipe: demo/byol is of byol, and the ablations are of hnpm: give"),
        ("tau", ["--recipe", "demo/hnmp"], "recipe: there is no 'demo/hnmp'; did you mean demo/hnpm?"),
        ("mining", ["--points", "0"], "points: must be between 1 and"),
        ("mining", ["--points", "3"], "points: 3 are more than the 2 epochs"),
        ("mining", ["--epochs", "0"], "epochs: must be between 1 and"),
        ("mining", ["--seeds", "0"], "seeds: must be between 1 and"),
        ("mining", ["--encoder", "resnet11"], "encoder: there is no 'resnet11'"),
        ("mining", ["--batch-size", "301"], "batch_size: 301 is more than the 300 images"),
        ("mining", ["--on", "train"], "--on"),
        ("mining", ["--epoch", "3"], "--epoch: there is no such option"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_begun(photos, tmp_path, monkeypatch, capsys, which, changes, said):
    monkeypatch.setattr("sys.argv", ["hardpair", "ablate", *ablate_words(which, photos, tmp_path / "out", *changes)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    errors = capsys.readouterr().err
    assert stop.value.code == 2
    assert said in errors
    assert len(errors.strip().splitlines()) == 1, errors
    assert list(tmp_path.iterdir()) == []


def test_images_without_labels_are_refused_before_any_training(tmp_path):
    (tmp_path / "flat").mkdir()
    for number in range(9):
        Image.new("RGB", (16, 16), (20 * number, 0, 0)).save(tmp_path / "flat" / f"{number}.png")
    with pytest.raises(UserError, match="no labels to evaluate"):
        cli.ablate(ablate_words("tau", tmp_path / "flat", tmp_path / "out", "--on", "validation"))
    assert not (tmp_path / "out").exists()


def test_help_teaches(capsys):
    with pytest.raises(SystemExit):
        cli.ablate(["--help"])
    said = capsys.readouterr().out
    for part in ("tau", "mining", "gradient", "--points", "Ctrl-C", "Table 7", "runs/ablate"):
        assert part in said
    assert "hardpair ablate" in cli.HELP
