"""What each part is worth: which cells there are, and effects with their confidence."""

import json
import math

import pytest
from scipy import stats
from small_sweeps import SMALL, top1

from hardpair.cli.ablate import main as ablate
from hardpair.errors import UserError
from hardpair.methods import METHODS
from hardpair.models import build_encoder
from hardpair.sweep.options import Ablate
from hardpair.sweep.parts import CELLS, EFFECTS, cell_recipes, effects, epochs_within, part_jobs, part_variants
from hardpair.sweep.results import Result, Summary


def made(**changes):
    options = Ablate("parts", **changes)
    recipes = cell_recipes(options)
    return options, recipes, part_variants(recipes, dict.fromkeys(recipes, 3.0), 30.0)


def test_the_cells_of_a_pair_differ_in_one_part():
    """In one setting or, where a part has several, in those alone."""
    together = [
        {"softness", "mine", "threshold"},
        {"share_weights", "block_student_gradient"},
        {"batch_size", "learning_rate"},
    ]
    _, recipes, _ = made()
    for pairs in EFFECTS.values():
        for pair in pairs:
            first, second = ({**recipes[name].settings, **vars(recipes[name])} for name in pair)
            different = {key for key in first if key != "settings" and first[key] != second[key]}
            assert len(different) == 1 or any(different <= group for group in together), (pair, different)


def test_every_cell_is_part_of_an_effect_and_builds():
    used = {name for pairs in EFFECTS.values() for pair in pairs for name in pair}
    assert used == set(CELLS)
    for recipe in made()[1].values():
        METHODS[recipe.method](build_encoder("resnet10", width=0.0625, small_images=True), **recipe.settings)


def test_cells_spend_the_same_and_claims_have_more_seeds(tmp_path):
    assert [epochs_within(30.0, cost) for cost in (3.0, 3.001, 4.13, 31.0)] == [10, 10, 7, 1]
    options, _, variants = made(seeds=3, out=tmp_path)
    assert {variant.recipe.epochs for variant in variants} == {10}
    jobs = part_jobs(options, variants, 5000)
    counts = {name: sum(job.variant.name == name for job in jobs) for name in CELLS}
    assert counts == {name: 5 if cell.claim else 3 for name, cell in CELLS.items()}
    assert [job.seed for job in jobs] == sorted(job.seed for job in jobs)
    batches = {job.variant.name: (job.recipe.batch_size, job.recipe.learning_rate) for job in jobs}
    assert batches["eq4"] == (40, 0.002)
    assert batches["eq4-large"] == (160, pytest.approx(0.006))


def rows_of(linear):
    """Summaries of cells with these accuracies by seed."""
    _, _, variants = made()
    common = {"run": "", "recipe_hash": "", "minutes": 1.0, "linear_control": 30.0, "knn": 40.0, "knn_control": 30.0}
    return [
        Summary(
            variant,
            tuple(
                Result(seed=seed, linear=value, first_loss=1.0, last_loss=0.5, **common)
                for seed, value in enumerate(linear[variant.name])
            ),
        )
        for variant in variants
        if variant.name in linear
    ]


def test_an_effect_is_paired_by_seed():
    rows = rows_of({"eq4": [50.0, 54.0, 52.0, 60.0], "eq4-all-pairs": [40.0, 43.0, 42.5]})
    (mining,) = effects(rows, "linear")
    assert (mining.label, mining.seeds) == ("mining, in Eq. 4", (10.0, 11.0, 9.5))
    low, high = stats.t.interval(0.95, 2, loc=mining.mean, scale=stats.sem(mining.seeds))
    assert (mining.mean - mining.margin, mining.mean + mining.margin) == pytest.approx((low, high))


def test_an_effect_is_the_mean_over_its_pairs():
    rows = rows_of({"eq4": [50.0], "eq4-no-small": [48.0], "soft": [52.0], "soft-no-small": [47.0]})
    by_label = {one.label: one for one in effects(rows, "linear")}
    assert by_label["small view"].seeds == (3.5,)
    assert by_label["small view"].margin is None
    assert by_label["Eq. 4 in place of the soft sum"].seeds == (-0.5,)


def test_what_goes_wrong_is_named():
    with pytest.raises(UserError, match="only: there is no cell 'eq5'"):
        cell_recipes(Ablate("parts", only=("eq5",)))
    with pytest.raises(UserError, match="only: "):
        Ablate("tau", only=("eq4",))


def test_a_small_one_from_beginning_to_end(photos, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HARDPAIR_CACHE", str(tmp_path / "cache"))
    words = ["parts", "--data", str(photos), *SMALL, "--batch-size", "50", "--epochs", "2", "--seeds", "1"]
    words += ["--only", "eq4-no-small", "soft-no-small", "--out", str(tmp_path / "out")]
    assert ablate(words) == 0
    content = json.loads((tmp_path / "out/parts.json").read_text())
    assert [row["name"] for row in content["rows"]] == ["eq4-no-small", "soft-no-small"]
    for row in content["rows"]:
        assert row["linear"]["mean"] == top1(tmp_path / f"out/{row['name']}-s0", "linear")
        assert math.isclose(row["forwards"], row["epochs"] * row["cost"])
    (effect,) = content["effects"]["linear"]
    first, second = (row["linear"]["mean"] for row in content["rows"])
    assert (effect["label"], effect["margin"]) == ("Eq. 4 in place of the soft sum", None)
    assert effect["mean"] == pytest.approx(first - second)
    assert (tmp_path / "out/parts.png").read_bytes()[:4] == b"\x89PNG"
    assert "Eq. 4, no small view" in capsys.readouterr().out
