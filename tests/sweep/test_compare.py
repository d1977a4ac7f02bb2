"""A whole comparison, in small: real runs on a handful of pictures."""

import json
import statistics

from small_sweeps import METHODS, logged, top1


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
