"""Tables and figures of sweeps made up here: what real small runs do not reach."""

import dataclasses
import io

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from hardpair.recipes import find_recipe
from hardpair.sweep.compare import Comparison, comparison_page, row_values
from hardpair.sweep.figures import draw_comparison, new_figure
from hardpair.sweep.results import Result, Summary
from hardpair.sweep.variants import Variant

CONDITIONS = {"encoder": "resnet10", "width": 0.25, "small_images": True, "image_size": 32, "batch_size": 160}


def row(method, budget, cost, linear, *, control=30.0, seeds=3):
    results = [
        Result(seed, f"{method}-b{budget}-s{seed}", "", 2.5, linear + seed, control, linear - 5, control - 5, 5.0, 4.0)
        for seed in range(seeds)
    ]
    recipe = dataclasses.replace(find_recipe(f"demo/{method}"), epochs=max(1, round(budget / cost)))
    return Summary(Variant(f"{method}-b{budget}", method, recipe, budget=budget, cost=cost), tuple(results))


def about(rows, **changes):
    methods = tuple(dict.fromkeys(r.variant.label for r in rows))
    budgets = tuple(sorted({r.variant.budget for r in rows}))
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
    return Comparison(**{**fields, **changes})


def test_a_control_that_diverged_has_no_figure():
    own = row("hnpm", 20, 4.0, 45.0)
    semi = [{0.1: 50.0 + k} for k in range(3)]
    all_well = tuple(dataclasses.replace(r, semi=s, semi_control=s) for r, s in zip(own.results, semi, strict=True))
    diverged = (dataclasses.replace(all_well[0], semi_control={}), *all_well[1:])
    for results, control in ((all_well, "51.0 ± 1.0"), (diverged, "–")):
        few = dataclasses.replace(own, results=results)
        assert f"| 51.0 ± 1.0 | {control} |" in comparison_page(about([few], labels=(0.1,)), [few]).markdown()
        assert row_values(few)["semi"] == {"0.1": {"mean": 51.0, "std": 1.0}}
        assert len(row_values(few)["semi_control"]) == (control != "–")


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
    content = draw_comparison("", rows, about(rows).methods, ["png"])["png"]
    with Image.open(io.BytesIO(content)) as image:
        assert image.size[0] > image.size[1] > 500


def test_several_budgets_are_told_apart():
    text = comparison_page(about(CURVES), CURVES).text()
    assert "40 or 80 forwards per image" in " ".join(text.split())
    heading = next(line for line in text.splitlines() if line.startswith("method"))
    assert heading.split()[:3] == ["method", "budget", "epochs"]
    assert (
        "| hnpm | 40 | 10 | 40 | 2.5 | 45.0 ± 1.0 | 30.0 | +15.0 | 39.0 ± 0.0 | 25.0 | 5.000 → 4.000 |"
        in comparison_page(about(CURVES), CURVES).markdown()
    )


def test_a_method_whose_single_epoch_is_over_the_budget_is_named():
    rows = [row("hnpm", 40, 4.0, 45.0), row("cpc", 40, 80.0, 40.0)]
    page = comparison_page(about(rows), rows)
    for text in (page.markdown(), page.text()):
        assert "cpc is over its budget: one epoch costs 80 forwards." in text
        assert "hnpm is over" not in text
    assert "over its budget" not in comparison_page(about(rows, unit="epochs"), rows).markdown()


def test_supervised_scores_on_validation_images_are_called_worthless():
    assert "measure nothing" not in comparison_page(about(CURVES), CURVES).markdown()
    assert "measure nothing" in comparison_page(about(CURVES, on="validation"), CURVES).markdown()


def test_long_conditions_stay_within_the_figure():
    batches = {"hnpm": 40, **dict.fromkeys(("simclr", "moco", "byol", "simsiam", "infomin"), 80)}
    words = about(CURVES, conditions={**CONDITIONS, "batch_size": batches}).title
    figure, panels = new_figure("Accuracy against compute", f"{words}; 3 of 15 runs so far")
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [text.get_window_extent(renderer) for text in figure.texts]
    assert all(box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1 for box in boxes)
    assert boxes[1].y0 > panels[0].get_window_extent(renderer).y1  # above the panels


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        (160, "batch 160"),
        ({"hnpm": 40, "byol": 40}, "batch 40"),
        ({"simclr": 80, "hnpm": 40, "byol": 40}, "batches of 40 (hnpm, byol) and 80 (simclr)"),
    ],
)
def test_batches_in_words(batch, said):
    assert f", {said}, 3 seeds" in about(CURVES, conditions={**CONDITIONS, "batch_size": batch}).title


def test_selective_kernels_are_mentioned():
    for sk in (True, False):
        assert ("kernels" in about(CURVES, conditions={**CONDITIONS, "sk": sk}).title) == sk
