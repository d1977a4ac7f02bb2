"""Training in bfloat16: what stays in float32, resuming, several processes, and the choice of "auto"."""

import dataclasses
import json
import time

import pytest
import shared_steps
import torch
from instruction_sets import instruction_sets
from safetensors.torch import load_file
from shared_steps import CASES, photos, recipe_of, record
from together import together

from hardpair.cli import run_verb
from hardpair.doctor.training_checks import METHOD_OF, NarrowCase, find_fault
from hardpair.errors import UserError
from hardpair.files import read_json
from hardpair.train import choose_precision, cost, plan, pretrain
from hardpair.train.gallery import write_pairs
from hardpair.train.step import Stepper

CPU = torch.device("cpu")
WHOLE = {torch.int64, torch.bool}


def in_half(recipe, **changes):
    return dataclasses.replace(recipe, precision="bfloat16", **changes)


SLOW = ("cpc", "infomin", "moco, in splits")


@pytest.mark.parametrize("case", [pytest.param(c, marks=pytest.mark.slow) if c.startswith(SLOW) else c for c in CASES])
def test_nothing_that_lasts_is_rounded(case):
    """Gradients, weights, averages, queues, banks, statistics, and what the optimiser remembers."""
    steppers = [Stepper(recipe, photos(), CPU) for recipe in (recipe_of(case), in_half(recipe_of(case)))]
    losses, gradients = [], set()
    for stepper in steppers:
        stepper.method.train()
        for parameter in stepper.trained:
            parameter.register_hook(lambda gradient: gradients.add(gradient.dtype))
        done = stepper.take(0)
        assert done.sound
        losses.append(done.outputs["loss"].item())
        assert done.outputs["features"].dtype == torch.float32
    assert losses[0] != losses[1]
    assert losses[1] == pytest.approx(losses[0], rel=0.02, abs=0.02)
    assert gradients == {torch.float32}
    method, optimiser = steppers[1].method, steppers[1].optimiser
    lasting = [*method.state_dict().values(), *(v for s in optimiser.state.values() for v in s.values())]
    assert {value.dtype for value in lasting if torch.is_tensor(value)} - WHOLE == {torch.float32}


def test_mined_pairs_are_not_rounded(tmp_path):
    stepper = Stepper(recipe_of("hnpm", half=True), photos(), CPU)
    stepper.method.train()
    views = stepper.method.views(photos().batch(torch.arange(16)), stepper.draw(0, torch.arange(16)))
    stepper.method.threshold = 9.0
    plain = stepper.method.hard_pairs(views)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = stepper.method.hard_pairs(views)
    assert plain.distance.dtype == rounded.distance.dtype == torch.float32
    # Networks round, distances do not: in bfloat16 these would be a few dozen values.
    assert not torch.equal(rounded.distance, rounded.distance.bfloat16().float())
    write_pairs(tmp_path / "pairs.json", stepper.method, stepper.images, stepper.draw(0, torch.arange(16)))
    assert read_json(tmp_path / "pairs.json")["mined"] > 0


@pytest.mark.parametrize(
    ("method", "settings"),
    [("hnpm", {"norm": "l2", "threshold": 1.2, "small_views": 1}), ("moco", {"queue": 200, "head_hidden": 16})],
)
def test_resumed_equals_uninterrupted(small_recipe, tmp_path, method, settings):
    recipe = in_half(small_recipe, epochs=1, data="sample:300", image_size=16, method=method, settings=settings)
    pretrain(recipe, tmp_path / "whole", checkpoint_every=2)
    for until in (1, 4, None):
        pretrain(recipe, tmp_path / "parts", resume=True, until=until)
    for file in ("encoder.safetensors", "checkpoints/000000006/state.safetensors"):
        assert (tmp_path / "whole" / file).read_bytes() == (tmp_path / "parts" / file).read_bytes(), file
    pretrain(dataclasses.replace(recipe, precision="float32"), tmp_path / "float")
    assert (tmp_path / "float/encoder.safetensors").read_bytes() != (
        tmp_path / "whole/encoder.safetensors"
    ).read_bytes()
    with pytest.raises(UserError, match="precision was bfloat16 and is now float32"):
        pretrain(dataclasses.replace(recipe, precision="float32"), tmp_path / "whole", resume=True)


@pytest.mark.slow
def test_two_processes_are_one_up_to_rounding(tmp_path):
    cases = ("hnpm", "hnpm, soft", "simclr", "moco, in splits", "byol", "instdisc")
    together(2, shared_steps.main, tmp_path, "bfloat16", cases)
    for case in cases:
        theirs, ours = load_file(tmp_path / f"{case}.safetensors"), record(case, torch.float32, half=True)
        exact = record(case, torch.float32)
        assert theirs.keys() == ours.keys()
        assert theirs["mean/loss"].item() == pytest.approx(ours["mean/loss"].item(), rel=0.05, abs=0.05)
        norms = [_norm_of_difference(a, b) for a, b in ((theirs, ours), (ours, exact))]
        assert 0 < norms[1] < 0.5, case  # rounded, and still the same gradient
        assert norms[0] < 2 * norms[1], case


def _norm_of_difference(one, other):
    names = [name for name in other if name.startswith("gradient/")]
    difference = torch.cat([(one[name] - other[name]).flatten() for name in names]).norm()
    return float(difference / torch.cat([other[name].flatten() for name in names]).norm())


class TestAuto:
    @pytest.fixture
    def recipe(self, small_recipe):
        return dataclasses.replace(small_recipe, precision="auto", data="sample:300", epochs=1)

    @pytest.fixture
    def hardware(self, monkeypatch):
        return lambda has: monkeypatch.setattr(choose_precision, "has_bfloat16", lambda _: has)

    @pytest.mark.parametrize(
        ("has", "seconds", "chosen", "why"),
        [
            (False, None, "float32", "this hardware has no bfloat16"),
            (True, {"float32": 3.0, "bfloat16": 2.0}, "bfloat16", "1.50 times as fast"),
            (True, {"float32": 3.0, "bfloat16": 2.9}, "float32", "1.03 times as fast"),
            (True, {"float32": 3.0, "bfloat16": 9.0}, "float32", "0.33 times as fast"),
        ],
    )
    def test_recipe_and_log_say_which(self, recipe, tmp_path, monkeypatch, capsys, hardware, has, seconds, chosen, why):
        hardware(has)
        timed = []
        monkeypatch.setattr(choose_precision, "seconds_per_image", lambda *_: timed.append(1) or seconds)
        run = tmp_path / "run"
        assert pretrain(recipe, run, until=2).step == 2
        assert f"precision: {chosen}" in capsys.readouterr().out.splitlines()[0]
        assert read_json(run / "recipe.json")["precision"] == chosen
        start = json.loads((run / "log.jsonl").read_text().splitlines()[0])
        assert why in start["precision_check"]
        timed.clear()
        hardware(not has)  # a resumed run keeps it, on whatever machine
        assert pretrain(recipe, run, resume=True).status == "finished"
        assert read_json(run / "recipe.json")["precision"] == chosen
        assert timed == []
        pretrain(dataclasses.replace(recipe, precision=chosen), tmp_path / "plain")
        assert (run / "encoder.safetensors").read_bytes() == (tmp_path / "plain/encoder.safetensors").read_bytes()
        assert read_json(run / "recipe.json")["hash"] == read_json(tmp_path / "plain/recipe.json")["hash"]

    @pytest.mark.parametrize("batch", [50, 10])
    def test_real_steps_are_timed_and_leave_no_trace(self, recipe, tmp_path, monkeypatch, hardware, batch):
        hardware(True)
        monkeypatch.setattr(choose_precision, "STEP_SECONDS", 0.02)
        recipe, run = dataclasses.replace(recipe, batch_size=batch), tmp_path / "run"
        random_state = torch.get_rng_state()
        chosen, why = choose_precision.choose_precision(recipe, photos(), CPU)
        assert torch.equal(torch.get_rng_state(), random_state)
        assert chosen == dataclasses.replace(recipe, precision=chosen.precision)
        assert chosen.precision in why
        pretrain(recipe, run)
        content = read_json(run / "recipe.json")
        assert content["precision"] in ("float32", "bfloat16")
        pretrain(dataclasses.replace(recipe, precision=content["precision"]), tmp_path / "plain")
        assert (run / "encoder.safetensors").read_bytes() == (tmp_path / "plain/encoder.safetensors").read_bytes()

    def test_what_is_slower_loses(self, recipe, monkeypatch, hardware):
        hardware(True)
        monkeypatch.setattr(choose_precision, "STEP_SECONDS", 0.0)
        take, slow = Stepper.take, ["float32"]

        def slower(self, step, *arguments):
            time.sleep(0.2 if self.recipe.precision == slow[0] else 0)
            return take(self, step, *arguments)

        monkeypatch.setattr(Stepper, "take", slower)
        for slow[0], quick in (("float32", "bfloat16"), ("bfloat16", "float32")):
            assert choose_precision.choose_precision(recipe, photos(), CPU)[0].precision == quick

    def test_methods_that_need_more_than_a_few_images(self, small_recipe, hardware):
        """Splits of one image each have no batch norm."""
        hardware(True)
        settings = {"splits": 8, "queue": 100, "head_hidden": 16}
        recipe = dataclasses.replace(
            small_recipe, precision="auto", method="moco", settings=settings, batch_size=24, image_size=8
        )
        assert choose_precision.choose_precision(recipe, small_photos(), CPU)[0].precision != "auto"

    def test_a_plan_times_what_would_be_chosen(self, monkeypatch, capsys):
        chosen = []
        monkeypatch.setattr(cost, "HERE_SECONDS", 0.0)
        monkeypatch.setattr(plan, "fastest", lambda _: chosen.append(1) or "bfloat16")
        words = "plan demo --width .0625 --image-size 8 --batch-size 20 --precision auto --here --data sample:200"
        assert run_verb(words.split()) == 0
        assert chosen
        assert "on this machine" in capsys.readouterr().out


def small_photos():
    images = photos()
    return dataclasses.replace(images, block=images.block[:, :, :8, :8].contiguous())


def narrow_cases():
    """At every side that has been seen to crash without the guard of narrow strides."""
    kinds = [kind for kind in METHOD_OF if kind != "patches"]  # whose patches are smaller than that
    return [
        NarrowCase(kind, width, size)
        for kind in kinds
        for width in (1 / 16, 1 / 8, 1 / 4)
        for size in (64, 96)
        if kind != "colour streams" or width > 1 / 16
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", instruction_sets())
def test_narrow_encoders_stay_within_their_memory(name):
    assert find_fault(narrow_cases(), instruction_sets()[name], precision="bfloat16") is None
