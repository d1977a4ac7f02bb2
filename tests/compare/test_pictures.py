"""Table and figure of comparisons made up here: what real small runs do not reach."""

import dataclasses
import io

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from hardpair.compare.figure import draw
from hardpair.compare.results import Result, Row
from hardpair.compare.style import new_figure
from hardpair.compare.table import About, in_words, markdown, plain_text
from hardpair.compare.words import conditions

CONDITIONS = {"encoder": "resnet10", "width": 0.25, "small_images": True, "image_size": 32, "batch_size": 160}


def row(method, budget, cost, linear, *, control=30.0, seeds=3):
    results = [
        Result(seed, f"{method}-b{budget}-s{seed}", "", 2.5, linear + seed, control, linear - 5, control - 5, 5.0, 4.0)
        for seed in range(seeds)
    ]
    return Row(method, budget, max(1, round(budget / cost)), cost, tuple(results))


def about(rows, **changes):
    methods, budgets = tuple(dict.fromkeys(r.method for r in rows)), tuple(sorted({r.budget for r in rows}))
    fields = {
        "command": "hardpair compare",
        "date": "2025-01-01",
        "commit": None,
        "family": "demo",
        "methods": methods,
        "conditions": CONDITIONS,
        "data": {"name": "sample/train", "images": 5000, "digest": ""},
        "labels": (),
        "on": "test",
        "unit": "forwards",
        "budgets": budgets,
        "seeds": 3,
        "runs": 3 * len(rows),
        "runs_done": 3 * len(rows),
        "known": {},
    }
    return About(**{**fields, **changes})


def test_a_control_that_diverged_has_no_figure():
    own = row("hnpm", 20, 4.0, 45.0)
    semi = [{0.1: 50.0 + k} for k in range(3)]
    all_well = tuple(dataclasses.replace(r, semi=s, semi_control=s) for r, s in zip(own.results, semi, strict=True))
    diverged = (dataclasses.replace(all_well[0], semi_control={}), *all_well[1:])
    for results, control in ((all_well, "51.0 ± 1.0"), (diverged, "–")):
        few = dataclasses.replace(own, results=results)
        assert f"| 51.0 ± 1.0 | {control} |" in markdown(about([few], labels=(0.1,)), [few])
        assert few.to_json()["semi"] == {"0.1": {"mean": 51.0, "std": 1.0}}
        assert len(few.to_json()["semi_control"]) == (control != "–")


CURVES = [row(m, b, c, 40 + b / 10) for b in (40, 80) for m, c in (("hnpm", 4.0), ("byol", 8.0), ("supervised", 3.0))]
CASES = {
    "curves": CURVES,
    "one point": [row("hnpm", 20, 4.0, 45.0, seeds=1)],
    "all alike": [row(method, 80, 4.0, 45.0) for method in ("hnpm", "moco", "instdisc")],
    "far apart, controls of their own": [
        row("hnpm", 80, 4.0, 45.0),
        row("moco", 80, 4.0, 44.0),
        row("cmc", 40, 1.7, 42.0, control=28.0),
        row("cpc", 800, 80.0, 40.0, control=27.0),
    ],
}


@pytest.mark.parametrize("rows", CASES.values(), ids=CASES.keys())
def test_every_figure_can_be_drawn(rows):
    content = draw(about(rows), rows, ["png"])["png"]
    with Image.open(io.BytesIO(content)) as image:
        assert image.size[0] > image.size[1] > 500


def test_several_budgets_are_told_apart():
    text = plain_text(about(CURVES), CURVES)
    assert "40 or 80 forwards per image" in " ".join(text.split())
    heading = next(line for line in text.splitlines() if line.startswith("method"))
    assert heading.split()[:3] == ["method", "budget", "epochs"]
    assert "| hnpm | 40 | 10 | 40 | 2.5 | 45.0 ± 1.0 | 30.0 | +15.0 | 39.0 ± 0.0 | 25.0 | 5.000 → 4.000 |" in markdown(
        about(CURVES), CURVES
    )


def test_a_method_whose_single_epoch_is_over_the_budget_is_named():
    rows = [row("hnpm", 40, 4.0, 45.0), row("cpc", 40, 80.0, 40.0)]
    for text in (markdown(about(rows), rows), plain_text(about(rows), rows)):
        assert "cpc is over its budget: one epoch costs 80 forwards." in text
        assert "hnpm is over" not in text
    assert "over its budget" not in markdown(about(rows, unit="epochs"), rows)


def test_supervised_scores_on_validation_images_are_called_worthless():
    assert not any("measure nothing" in line for line in in_words(about(CURVES)))
    assert any("measure nothing" in line for line in in_words(about(CURVES, on="validation")))


def test_long_conditions_stay_within_the_figure():
    batches = {"hnpm": 40, **dict.fromkeys(("simclr", "moco", "byol", "simsiam", "infomin"), 80)}
    words = ", ".join(conditions({**CONDITIONS, "batch_size": batches}, {"name": "a/train", "images": 10_000}, 3))
    figure, panels = new_figure("Accuracy against compute", f"{words}, 32 forwards per image; 3 of 15 runs so far")
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [text.get_window_extent(renderer) for text in figure.texts]
    assert all(box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1 for box in boxes)
    assert boxes[1].y0 > panels[0].get_window_extent(renderer).y1  # above the panels
