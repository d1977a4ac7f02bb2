"""Whole ablations, in small: real runs on a handful of pictures."""

import json
import statistics

import pytest
from small_sweeps import END, SEEDS, STEPS, logged, read_lines, top1

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


def test_curves_have_a_point_for_every_evaluated_epoch(ablated):
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
