"""Which runs make up a comparison."""

import dataclasses

import pytest

from hardpair.errors import UserError
from hardpair.methods import METHODS
from hardpair.recipes import FAMILIES, find_recipe
from hardpair.sweep.compare import chosen_methods, comparison_variants, measure_costs, shared_conditions
from hardpair.sweep.options import SHARED, Compare
from hardpair.sweep.variants import plan_jobs

COSTS = {"hnpm": 4.0, "byol": 8.0, "cpc": 83.6}


def test_seeds_are_outermost_and_every_run_has_its_folder(tmp_path):
    variants = comparison_variants(Compare(budget=(9, 3, 9)), COSTS)
    jobs = plan_jobs(variants, seeds=2, out=tmp_path, images=5000)
    assert [job.run.name for job in jobs] == [
        f"{method}-b{budget}-s{seed}" for seed in (0, 1) for budget in (3, 9) for method in COSTS
    ]
    assert {(job.recipe.method, job.recipe.epochs, job.recipe.seed) for job in jobs} == {
        (job.variant.label, job.variant.budget, job.seed) for job in jobs
    }
    assert str(jobs[0]) == "hnpm, seed 0, 3 epochs (4.0 forwards per image)"


def test_a_budget_of_forwards_gives_each_method_its_epochs():
    variants = comparison_variants(Compare(budget=(40, 90), unit="forwards"), COSTS)
    assert {(variant.label, variant.budget): variant.recipe.epochs for variant in variants} == {
        ("hnpm", 40): 10,
        ("byol", 40): 5,
        ("cpc", 40): 1,  # never none
        ("hnpm", 90): 22,
        ("byol", 90): 11,
        ("cpc", 90): 1,
    }
    assert [v.forwards for v in variants] == [COSTS[v.label] * v.recipe.epochs for v in variants]


@pytest.mark.parametrize("family", FAMILIES)
def test_conditions_are_shared_and_the_rest_is_the_methods_own(family):
    options = Compare(methods="all", family=family, width=0.5, small_images=False)
    methods = chosen_methods(options)
    assert methods == [*METHODS, "supervised"]  # not the same ones once more for every encoder of the tables
    variants = comparison_variants(dataclasses.replace(options, budget=(50,)), dict.fromkeys(methods, 1.0))
    seen = {tuple(getattr(variant.recipe, name) for name in SHARED) for variant in variants}
    assert seen == {tuple(shared_conditions(options).values())}
    assert shared_conditions(options)["width"] == 0.5
    for variant in variants:
        own = find_recipe(f"{family}/{variant.label}")
        for name in ("batch_size", "optimiser", "learning_rate", "weight_decay", "schedule", "clip", "settings"):
            assert getattr(variant.recipe, name) == getattr(own, name)


@pytest.mark.parametrize("family", ["demo", "cifar10"])
def test_a_batch_that_is_given_is_everybodys(family):
    options = Compare(methods="all", family=family, batch_size=100)
    for variant in comparison_variants(options, dict.fromkeys(chosen_methods(options), 1.0)):
        own = find_recipe(f"{family}/{variant.label}")
        assert variant.recipe.batch_size == 100
        scale = 1 if own.optimiser == "adam" else 100 / own.batch_size
        assert variant.recipe.learning_rate == pytest.approx(own.learning_rate * scale)


def test_methods_are_taken_once_in_the_order_given():
    assert chosen_methods(Compare(methods="byol, hnpm,byol")) == ["byol", "hnpm"]


def test_a_warm_up_keeps_its_share_of_the_run():
    variants = comparison_variants(Compare(family="cifar10", budget=(5, 1000)), {"simclr": 6.0, "moco": 4.0})
    assert [variant.recipe.warmup_epochs for variant in variants] == [0.05, 0.0, 10.0, 0.0]


def test_selective_kernels_are_everybodys_or_nobodys():
    costs = dict.fromkeys(["hnpm", "simclrv2"], 4.0)
    for options in (Compare(family="imagenet", sk=True), Compare(family="imagenet")):
        assert {variant.recipe.sk for variant in comparison_variants(options, costs)} == {bool(options.sk)}


def test_a_method_that_cannot_work_here_is_named():
    def refuse(recipe):
        raise UserError("width: too small")

    with pytest.raises(UserError, match="hnpm: width: too small"):
        measure_costs(Compare(), ["hnpm"], refuse)
