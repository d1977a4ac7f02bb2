"""How long a run takes on this machine, by real steps, and how many epochs fit into some hours."""

import dataclasses
import json

import pytest
import torch

from hardpair.errors import UserError
from hardpair.recipes import Recipe, find_recipe
from hardpair.train import cost
from hardpair.train import plan as plan_module
from hardpair.train.hours import fit_epochs, with_epochs
from hardpair.train.plan import Gpus, RunPlan, make_plan
from hardpair.train.plan_text import plan_json, plan_text
from hardpair.train.step import Stepper


def small(method: str, **changes: object) -> Recipe:
    fields = {"encoder": "resnet10", "width": 1 / 4, "batch_size": 16, "image_size": 8, **changes}
    return dataclasses.replace(find_recipe(f"demo/{method}"), **fields)


def test_steps_timed_on_this_machine(monkeypatch):
    monkeypatch.setattr(cost, "HERE_SECONDS", 0.1)
    recipe, state = small("hnpm"), torch.get_rng_state()
    whole = make_plan(recipe, Gpus(1), here=True)
    assert torch.equal(torch.get_rng_state(), state)
    monkeypatch.setattr(cost, "HERE_FLOP", 8 * whole.work.step_per_image)  # too much for its batch of 16
    half = make_plan(recipe, Gpus(1), here=True)
    for plan in (whole, half):
        assert plan_text(plan).splitlines()[1].startswith(f"on this machine ({plan.here.device}")
        assert plan.here.steps >= 1
        assert json.loads(json.dumps(plan_json(plan)))["here"]["step_seconds"] == plan.here.step_seconds
    assert 0.2 < half.here.step_seconds / whole.here.step_seconds < 10  # for the recipe's batch, both


def test_timed_as_they_are(monkeypatch):
    """In micro-batches too, and where only some of the batch is timed these are smaller; in the recipe's precision."""
    taken = []

    class Noted(Stepper):
        def __init__(self, recipe, *others):
            taken.append((recipe.batch_size, recipe.micro_batch, recipe.precision))
            super().__init__(recipe, *others)

    monkeypatch.setattr(cost, "Stepper", Noted)
    monkeypatch.setattr(cost, "HERE_SECONDS", 0)
    recipe = small("hnpm", micro_batch=8, precision="bfloat16")
    plan = make_plan(recipe, Gpus(1), here=True)
    monkeypatch.setattr(cost, "HERE_FLOP", 8.5 * plan.work.step_per_image)
    make_plan(recipe, Gpus(1), here=True)
    make_plan(dataclasses.replace(recipe, micro_batch=2), Gpus(1), here=True)
    assert taken == [(16, 8, "bfloat16"), (8, 4, "bfloat16"), (8, 2, "bfloat16")]


def test_by_itself_it_times_what_takes_seconds_and_fits(monkeypatch):
    recipe = small("hnpm")
    monkeypatch.setattr(plan_module, "time_steps", lambda *_: cost.Here("cpu", 1, 1, 1.0))
    assert make_plan(recipe, Gpus(1), here=None).here
    with monkeypatch.context() as patch:
        plan = make_plan(recipe, Gpus(1))
        patch.setattr(torch.cuda, "is_available", lambda: True)
        assert plan_module._timed(plan, None, None, anyway=False) is plan
    with monkeypatch.context() as patch:
        patch.setattr(plan_module, "MOST_FLOP", 1.0)
        plan = make_plan(recipe, Gpus(1), here=None)
        assert plan.here is None
        assert "on this machine: not timed: " in plan_text(plan)
        assert "--here" in plan.note_here
        assert make_plan(recipe, Gpus(1), here=True).here
    monkeypatch.setattr(plan_module, "free_memory", lambda: 1e5)
    plan = make_plan(recipe, Gpus(1), here=True)
    assert plan.here is None
    assert plan.note_here.endswith("of memory, and 100.0 kB are free")


def test_a_run_too_large_for_this_machine_is_timed_and_said(monkeypatch):
    """By a part of its batch that does fit."""
    monkeypatch.setattr(plan_module, "time_steps", lambda *_: cost.Here("cpu", 1, 1, 1.0))
    recipe = small("hnpm")
    whole = make_plan(recipe, Gpus(1)).memory
    monkeypatch.setattr(plan_module, "free_memory", lambda: whole.fixed + whole.activations // 2)
    monkeypatch.setattr(plan_module, "timed_batch", lambda *_: 2)
    plan = make_plan(recipe, Gpus(1), here=True)
    assert plan.here
    assert plan.note_here.startswith("a step takes ")


@pytest.fixture(scope="module")
def plan() -> RunPlan:
    """312 steps an epoch, of a tenth of a second here."""
    made = make_plan(small("hnpm", warmup_epochs=4.0, epochs=20), Gpus(4, tflops=1e-3))
    return dataclasses.replace(made, here=cost.Here("cpu", 1, 10, 0.1))


@pytest.mark.parametrize("on_gpus", [False, True])
@pytest.mark.parametrize("hours", [0.2, 1, 30])
def test_as_many_epochs_as_fit(plan, hours, on_gpus):
    fitted, found = fit_epochs(plan, hours, on_gpus=on_gpus)
    step_seconds = plan.step_seconds if on_gpus else 0.1
    epoch = 312 * step_seconds
    assert found.epochs * epoch <= 0.95 * hours * 3600 < (found.epochs + 1) * epoch
    assert found.seconds == pytest.approx(found.epochs * epoch)
    assert fitted.recipe.epochs == found.epochs >= 1
    assert fitted.work.steps == 312 * found.epochs
    assert fitted.work.total == pytest.approx(make_plan(fitted.recipe, plan.gpus).work.total)
    assert found.place == ("on 4 GPUs" if on_gpus else "on this machine")
    text, content = plan_text(fitted, found), plan_json(fitted, found)
    assert f"in {hours:g} h {found.place}: {found.epochs:,} epoch" in text.splitlines()[1]
    assert content["fitted"]["epochs"] == content["recipe"]["epochs"] == found.epochs


def test_a_warm_up_that_would_be_too_long_keeps_its_share():
    recipe = small("hnpm", warmup_epochs=4.0, epochs=20)
    assert with_epochs(recipe, 5).warmup_epochs == 4
    assert with_epochs(recipe, 4).warmup_epochs == pytest.approx(0.8)
    assert with_epochs(recipe, 1).warmup_epochs == pytest.approx(0.2)


def test_too_short_for_an_epoch_says_what_fits(plan):
    """And what it says does fit, just."""
    with pytest.raises(UserError) as error:
        fit_epochs(plan, 0.005, on_gpus=False)
    assert str(error.value) == (
        "hours: an epoch of 5,000 images takes 32 s on this machine; give --hours 0.01, 2,736 images at most, or an "
        "encoder of --width 0.18"
    )
    assert fit_epochs(plan, 0.01, on_gpus=False)[1].epochs == 1
    fewer = dataclasses.replace(plan, images=2736)
    assert fit_epochs(fewer, 0.005, on_gpus=False)[1].epochs == 1
    slow = dataclasses.replace(plan.here, step_seconds=60)
    with pytest.raises(UserError, match=r"takes 5 h 12 min on this machine; give --hours 5.48, or a smaller encoder$"):
        fit_epochs(dataclasses.replace(plan, here=slow), 0.015, on_gpus=False)
    assert fit_epochs(dataclasses.replace(plan, here=slow), 5.48, on_gpus=False)[1].epochs == 1


def test_no_more_epochs_than_a_recipe_may_have(plan):
    assert fit_epochs(plan, 1e5, on_gpus=False)[0].recipe.epochs == 100_000


def test_hours_that_nobody_can_tell(plan):
    unknown = dataclasses.replace(plan, here=None, note_here="not timed: 2 images take 8.0 GB")
    with pytest.raises(UserError, match=r"^hours: .*not timed: 2 images take 8.0 GB.*--gpus"):
        fit_epochs(unknown, 1, on_gpus=False)
    assert fit_epochs(unknown, 1, on_gpus=True)[1].epochs
    for hours in (0.0, -1.0, float("nan")):
        with pytest.raises(UserError, match=r"^hours: must be between"):
            fit_epochs(plan, hours, on_gpus=True)
