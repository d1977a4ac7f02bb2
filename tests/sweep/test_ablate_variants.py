"""Which runs make up an ablation."""

import pytest

from hardpair.errors import UserError
from hardpair.recipes import RECIPES, find_recipe
from hardpair.sweep.ablate import CHANGES, SETTLED, ablation_variants, base_recipe, evaluated_epochs
from hardpair.sweep.options import Ablate
from hardpair.sweep.variants import plan_jobs


def jobs_of(options):
    return plan_jobs(ablation_variants(options), seeds=options.seeds, out=options.out, images=5000)


def test_seeds_are_outermost_and_every_run_has_its_folder(tmp_path):
    jobs = jobs_of(Ablate("tau", seeds=2, epochs=40, out=tmp_path))
    names = ["base", "tau-1", "tau-0.999", "tau-0"]
    assert [job.run for job in jobs] == [tmp_path / f"{name}-s{seed}" for seed in (0, 1) for name in names]
    assert [job.recipe.settings["tau"] for job in jobs] == [0.5, 1.0, 0.999, 0.0] * 2
    assert [job.recipe.seed for job in jobs] == [0] * 4 + [1] * 4
    assert str(jobs[1]) == "tau 1, seed 0, 40 epochs"


@pytest.mark.parametrize(
    ("which", "name", "setting"),
    [("mining", "no-mining", "mine"), ("gradient", "student-gradient", "block_student_gradient")],
)
def test_a_variant_differs_from_the_base_in_one_setting(which, name, setting):
    base, changed = (job.recipe.to_json() for job in jobs_of(Ablate(which, seeds=1)))
    assert [job.run.name for job in jobs_of(Ablate(which, seeds=1))] == ["base-s0", f"{name}-s0"]
    assert {key for key in base if base[key] != changed[key]} == {"settings", "hash"}
    different = {key for key, value in base["settings"].items() if value != changed["settings"][key]}
    assert different == {setting}
    assert (base["settings"][setting], changed["settings"][setting]) == (True, False)


@pytest.mark.parametrize(
    "name", ["demo/hnpm", "demo", "cifar10/hnpm", "paper", "imagenet/hnpm", "imagenet/hnpm-paper-200-2x"]
)
def test_the_base_is_the_recipe_and_the_same_in_all_three(name):
    bases = [jobs_of(Ablate(which, recipe=name, seeds=1))[0] for which in CHANGES]
    assert {job.run.name for job in bases} == {"base-s0"}
    assert {job.recipe.to_json()["hash"] for job in bases} == {find_recipe(name).to_json()["hash"]}


def test_a_recipe_that_had_settled_otherwise_is_put_right(monkeypatch):
    other = find_recipe("demo")
    monkeypatch.setitem(RECIPES, "other", type(other)("other", settings={**other.settings, "tau": 0.9, "mine": False}))
    settings = base_recipe(Ablate("tau", recipe="other")).to_json()["settings"]
    assert {name: settings[name] for name in SETTLED} == SETTLED
    assert settings["threshold"] == other.settings["threshold"]


def test_what_is_given_goes_before_the_recipe():
    options = Ablate("mining", recipe="paper", data="cifar10", width=0.5, image_size=16, batch_size=80, epochs=7)
    recipe, own = base_recipe(options), find_recipe("paper")
    assert (recipe.data, recipe.width, recipe.image_size, recipe.batch_size, recipe.epochs) == (
        "cifar10", 0.5, 16, 80, 7,
    )  # fmt: skip
    assert (recipe.encoder, recipe.learning_rate, recipe.schedule) == (own.encoder, own.learning_rate, own.schedule)


def test_points_are_equally_spaced_and_end_at_the_end():
    for name in ("base", "no-mining"):
        assert evaluated_epochs(Ablate("mining"), name, 40) == (8, 16, 24, 32, 40)
        assert evaluated_epochs(Ablate("gradient", points=3), name, 10) == (3, 6, 10)
        assert evaluated_epochs(Ablate("mining"), name, 3) == (1, 2, 3)  # the usual number, as far as it goes
    job = jobs_of(Ablate("mining", epochs=40, batch_size=160, seeds=1))[0]
    assert job.steps == tuple(31 * epoch for epoch in (8, 16, 24, 32, 40))


def test_of_tau_only_the_shared_base_is_evaluated_on_the_way_unless_asked():
    base, *others = CHANGES["tau"]
    assert evaluated_epochs(Ablate("tau"), base, 40) == (8, 16, 24, 32, 40)
    assert {evaluated_epochs(Ablate("tau"), name, 40) for name in others} == {(40,)}
    assert {evaluated_epochs(Ablate("tau", points=2), name, 40) for name in CHANGES["tau"]} == {(20, 40)}
    assert {evaluated_epochs(Ablate("tau", points=1), name, 40) for name in CHANGES["tau"]} == {(40,)}


def test_more_points_than_epochs_are_refused():
    with pytest.raises(UserError, match="points: 6 are more than the 5 epochs"):
        ablation_variants(Ablate("mining", epochs=5, points=6))
