"""The sentence about the paper's order, and pictures of ablations made up here."""

import dataclasses
import io

import pytest
from PIL import Image

from hardpair.sweep.ablate import CHANGES, Ablation, ablation_page, ablation_variants, claims, published, verdict
from hardpair.sweep.figures import draw_ablation
from hardpair.sweep.options import Ablate
from hardpair.sweep.results import Evaluation, Result, Summary

ORDER = ["base", "tau-0.999", "tau-0", "tau-1"]  # best first, in the paper


def row(which, name, linear, losses=None, epochs=(40,)):
    """A variant with these scores and losses, a seed each."""
    variant = next(variant for variant in ablation_variants(Ablate(which, epochs=40)) if variant.name == name)
    results = [
        Result(
            seed, f"{name}-s{seed}", "", 1.0, score, 30.0, score - 5, 25.0, 1.0, loss,
            points=tuple(Evaluation(e, score, 30.0, score - 5, 25.0) for e in epochs),
            losses=tuple((e, loss + 1 / e) for e in range(1, 41)), mined=0.5, rank=20.0,
        )
        for seed, (score, loss) in enumerate(zip(linear, losses or [0.0] * len(linear), strict=True))
    ]  # fmt: skip
    return Summary(dataclasses.replace(variant, evaluated=epochs), tuple(results))


def tau_rows(**linear):
    return [row("tau", name, linear[name.replace("-", "_").replace(".", "_")]) for name in ORDER]


def test_the_papers_orders_are_those_it_prints():
    assert published("tau") == {"tau-1": "24", "tau-0.999": "73.4", "base": "77.1", "tau-0": "49.1"}
    assert published("mining") == published("gradient") == {}
    (tau,) = claims("tau")
    assert list(tau.order) == ORDER
    for which, other in (("mining", "no-mining"), ("gradient", "student-gradient")):
        accuracy, loss = claims(which)
        assert (accuracy.figure, accuracy.order, accuracy.sign) == ("linear", ("base", other), 1)
        assert (loss.figure, loss.order, loss.sign) == ("loss", ("base", other), -1)


def test_the_order_holds():
    rows = tau_rows(base=[45, 46, 47], tau_0_999=[42, 43, 44], tau_0=[39, 40, 41], tau_1=[30, 31, 32])
    assert verdict("tau", rows) == (
        "The paper's order in linear top-1 (tau 0.5 > tau 0.999 > tau 0 > tau 1) holds here: "
        "tau 0.5 46.0 ± 1.0, tau 0.999 43.0 ± 1.0, tau 0 40.0 ± 1.0, tau 1 31.0 ± 1.0."
    )


def test_the_order_does_not_hold_where_one_pair_is_clearly_the_other_way_round():
    rows = tau_rows(base=[45, 46, 47], tau_0_999=[42, 43, 44], tau_0=[30, 31, 32], tau_1=[39, 40, 41])
    assert verdict("tau", rows) == (
        "The paper's order in linear top-1 (tau 0.5 > tau 0.999 > tau 0 > tau 1) does not hold here: "
        "tau 0.5 46.0 ± 1.0, tau 0.999 43.0 ± 1.0, tau 1 40.0 ± 1.0, tau 0 31.0 ± 1.0."
    )


def test_the_order_is_open_where_seeds_disagree_about_the_wrong_pair():
    rows = tau_rows(base=[45, 46, 47], tau_0_999=[47, 46, 46], tau_0=[39, 40, 41], tau_1=[30, 31, 32])
    said = verdict("tau", rows)
    assert "can be neither confirmed nor refuted here: tau 0.999 46.3 ± 0.6, tau 0.5 46.0 ± 1.0, tau 0" in said
    assert said.endswith("(not told apart by these seeds: tau 0.5 and tau 0.999).")


def test_means_in_order_are_not_enough():
    rows = tau_rows(base=[45, 46, 47], tau_0_999=[46, 46, 45], tau_0=[39, 40, 41], tau_1=[30, 31, 32])
    assert "holds here by the means alone" in verdict("tau", rows)
    assert "not told apart by these seeds: tau 0.5 and tau 0.999)" in verdict("tau", rows)


def test_seeds_are_compared_one_by_one():
    """What a seed does to both is no reason to doubt their difference."""
    rows = tau_rows(base=[35, 46, 57], tau_0_999=[34, 45, 56], tau_0=[33, 44, 55], tau_1=[32, 43, 54])
    assert ") holds here: tau 0.5 46.0 ± 11.0" in verdict("tau", rows)


def test_equal_figures_settle_nothing():
    rows = tau_rows(base=[45, 45], tau_0_999=[45, 45], tau_0=[45, 45], tau_1=[45, 45])
    assert "can be neither confirmed nor refuted here" in verdict("tau", rows)
    assert verdict("tau", rows).endswith("tau 1 45.0 ± 0.0 (not told apart by these seeds).")


def test_one_seed_has_no_spread():
    rows = tau_rows(base=[45.0], tau_0_999=[43.0], tau_0=[40.0], tau_1=[41.0])
    said = verdict("tau", rows)
    assert "does not hold here: tau 0.5 45.0, tau 0.999 43.0, tau 1 41.0, tau 0 40.0 (one seed" in said


@pytest.mark.parametrize(
    ("losses", "finding"),
    [
        ([-3.1, -3.2], "holds here: with mining -3.150 ± 0.071, without mining -2.850"),
        ([-2.1, -2.2], "does not hold here: without mining -2.850 ± 0.071, with mining -2.150"),
    ],
)
def test_of_figure_2_accuracy_should_be_higher_and_loss_lower(losses, finding):
    rows = [row("mining", "base", [45, 46], losses), row("mining", "no-mining", [43, 44], [-2.8, -2.9])]
    accuracy, loss = verdict("mining", rows).split("; ")
    assert accuracy.startswith("The paper's order in linear top-1 (with mining > without mining) holds here: with")
    assert loss.startswith(f"the paper's order in loss (with mining < without mining) {finding}")


def about(which, runs, seeds):
    conditions = {"encoder": "resnet10", "width": 0.25, "small_images": True, "image_size": 32, "batch_size": 160}
    data = {"name": "sample/train", "images": 5000, "digest": ""}
    when = {"command": "hardpair ablate", "date": "2025-01-01", "commit": None}
    counts = {"seeds": seeds, "runs": runs, "runs_done": runs, "epochs": 40}
    return Ablation(**when, **counts, conditions=conditions, data=data, on="test", which=which, recipe="demo/hnpm")


CASES = {
    "points beside a curve": ("tau", [(8, 40), (40,), (40,), (40,)], [45.0, 46.0, 47.0]),
    "one seed": ("tau", [(40,)] * 4, [45.0]),
    "curves": ("mining", [(8, 16, 24, 32, 40)] * 2, [45.0, 46.0]),
}


@pytest.mark.parametrize(("which", "epochs", "linear"), CASES.values(), ids=CASES.keys())
def test_every_figure_can_be_drawn(which, epochs, linear):
    rows = [row(which, name, linear, epochs=e) for name, e in zip(CHANGES[which], epochs, strict=True)]
    content = draw_ablation("Title", "about", rows, list(CHANGES[which]), ["png"])["png"]
    with Image.open(io.BytesIO(content)) as image:
        assert image.size[0] > image.size[1] > 500


def test_losses_of_different_pairs_are_not_put_side_by_side_without_a_word():
    rows = [row("mining", name, [45, 46]) for name in ("base", "no-mining")]
    assert "The loss is not the same sum for both" in ablation_page(about("mining", 4, 2), rows).text()
    rows = [row("gradient", name, [45, 46]) for name in ("base", "student-gradient")]
    assert "not the same sum" not in ablation_page(about("gradient", 4, 2), rows).text()
