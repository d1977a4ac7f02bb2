"""Which runs make up a comparison."""

import dataclasses

import pytest

from hardpair.compare.options import Compare
from hardpair.compare.plan import SHARED, chosen_methods, measure_costs, plan_jobs, shared_conditions
from hardpair.compare.words import conditions
from hardpair.errors import UserError
from hardpair.methods import METHODS
from hardpair.recipes import FAMILIES, find_recipe

FACTS = {"images": 10, "name": "photos"}
COSTS = {"hnpm": 4.0, "byol": 8.0, "cpc": 83.6}


def test_seeds_are_outermost_and_every_run_has_its_folder(tmp_path):
    jobs = plan_jobs(Compare(budget=(9, 3, 9), seeds=2, out=tmp_path), COSTS)
    assert [job.run.name for job in jobs] == [
        f"{method}-b{budget}-s{seed}" for seed in (0, 1) for budget in (3, 9) for method in COSTS
    ]
    assert {(job.recipe.method, job.recipe.epochs, job.recipe.seed) for job in jobs} == {
        (job.method, job.budget, job.seed) for job in jobs
    }
    assert str(jobs[0]) == "hnpm, seed 0, 3 epochs (4.0 forwards per image)"


def test_a_budget_of_forwards_gives_each_method_its_epochs():
    jobs = plan_jobs(Compare(budget=(40, 90), unit="forwards", seeds=1), COSTS)
    assert {(job.method, job.budget): job.recipe.epochs for job in jobs} == {
        ("hnpm", 40): 10,
        ("byol", 40): 5,
        ("cpc", 40): 1,  # never none
        ("hnpm", 90): 22,
        ("byol", 90): 11,
        ("cpc", 90): 1,
    }
    assert [job.forwards for job in jobs] == [job.cost * job.recipe.epochs for job in jobs]


@pytest.mark.parametrize("family", FAMILIES)
def test_conditions_are_shared_and_the_rest_is_the_methods_own(family):
    options = Compare(methods="all", family=family, width=0.5, small_images=False)
    methods = chosen_methods(options)
    assert methods == [*METHODS, "supervised"]  # not the same ones once more for every encoder of the tables
    jobs = plan_jobs(dataclasses.replace(options, budget=(50,)), dict.fromkeys(methods, 1.0))
    seen = {tuple(getattr(job.recipe, name) for name in SHARED) for job in jobs}
    assert seen == {tuple(shared_conditions(options).values())}
    assert shared_conditions(options)["width"] == 0.5
    for job in jobs:
        own = find_recipe(f"{family}/{job.method}")
        for name in ("batch_size", "optimiser", "learning_rate", "weight_decay", "schedule", "clip", "settings"):
            assert getattr(job.recipe, name) == getattr(own, name)


@pytest.mark.parametrize("family", ["demo", "cifar10"])
def test_a_batch_that_is_given_is_everybodys(family):
    options = Compare(methods="all", family=family, batch_size=100)
    for job in plan_jobs(options, dict.fromkeys(chosen_methods(options), 1.0)):
        own = find_recipe(f"{family}/{job.method}")
        assert job.recipe.batch_size == 100
        scale = 1 if own.optimiser == "adam" else 100 / own.batch_size
        assert job.recipe.learning_rate == pytest.approx(own.learning_rate * scale)


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        (160, "batch 160"),
        ({"hnpm": 40, "byol": 40}, "batch 40"),
        ({"simclr": 80, "hnpm": 40, "byol": 40}, "batches of 40 (hnpm, byol) and 80 (simclr)"),
    ],
)
def test_batches_in_words(batch, said):
    shared = {"small_images": True, "encoder": "resnet10", "width": 1, "image_size": 32, "batch_size": batch}
    assert conditions(shared, FACTS, 1)[2] == said


def test_methods_are_taken_once_in_the_order_given():
    assert chosen_methods(Compare(methods="byol, hnpm,byol")) == ["byol", "hnpm"]


def test_a_warm_up_keeps_its_share_of_the_run():
    jobs = plan_jobs(Compare(family="cifar10", budget=(5, 1000), seeds=1), {"simclr": 6.0, "moco": 4.0})
    assert [job.recipe.warmup_epochs for job in jobs] == [0.05, 0.0, 10.0, 0.0]


def test_selective_kernels_are_everybodys_or_nobodys():
    costs = dict.fromkeys(["hnpm", "simclrv2"], 4.0)
    for options in (Compare(family="imagenet", sk=True), Compare(family="imagenet")):
        assert {job.recipe.sk for job in plan_jobs(options, costs)} == {bool(options.sk)}
        assert ("kernels" in " ".join(conditions({**shared_conditions(options), "batch_size": 1}, FACTS, 1))) == bool(
            options.sk
        )


def test_a_method_that_cannot_work_here_is_named():
    def refuse(recipe):
        raise UserError("width: too small")

    with pytest.raises(UserError, match="hnpm: width: too small"):
        measure_costs(Compare(), ["hnpm"], refuse)
