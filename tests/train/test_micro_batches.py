"""A step in micro-batches is the plain step where no image of a batch knows of another; batch norm sees its part."""

import dataclasses
from dataclasses import replace

import pytest
import shared_steps
import torch
from shared_steps import CASES, photos, recipe_of
from torch import nn

from hardpair.methods import METHODS, Method
from hardpair.models import Encoder, build_encoder
from hardpair.train import pretrain, step
from hardpair.train.cost import forward_equivalents
from hardpair.train.step import Stepper

CPU, AT_A_TIME = torch.device("cpu"), 3  # of 16 images, or of 32 views
SOME = ("hnpm, soft", "simclr", "cpc", "infomin")
CASE_NAMES = [*SOME, *(pytest.param(case, marks=pytest.mark.slow) for case in CASES if case not in SOME)]


def without_batch_norm(method: Method) -> Method:
    """Its encoders normalise every image by itself."""
    for encoder in (module for module in method.modules() if isinstance(module, Encoder)):
        for parent in list(encoder.modules()):
            for name, child in parent.named_children():
                if isinstance(child, nn.BatchNorm2d):
                    setattr(parent, name, nn.GroupNorm(1, child.num_features))
    return method


@pytest.mark.parametrize("case", CASE_NAMES)
def test_the_same_as_the_plain_step(case, monkeypatch):
    """Loss, gradients, mined pairs, and the state after some steps; not Adam's, who makes much of rounding near 0."""
    build, found, optimiser = step.build_method, {}, "lars" if case.endswith("lars") else "sgd"
    monkeypatch.setattr(step, "build_method", lambda *given: without_batch_norm(build(*given)))
    for at_a_time in (0, AT_A_TIME):
        recipe = replace(recipe_of(case), micro_batch=at_a_time, optimiser=optimiser)
        monkeypatch.setattr(shared_steps, "recipe_of", lambda _, made=recipe, **__: made)
        found[at_a_time] = shared_steps.record(case, torch.float64)
    plain, parts = found.values()
    assert plain.keys() == parts.keys()
    assert {"mean/loss", "rows", "view"} < plain.keys()
    for name, value in plain.items():
        assert torch.allclose(parts[name].double(), value.double(), rtol=1e-9, atol=1e-11), name
    if case == "hnpm":  # as of the whole batch: its anchors have 15 others each
        assert 0 < plain["mean/mined"] < 1
        assert parts["mean/mined"] == plain["mean/mined"] == plain["mined"].sum() / (16 * 15)


def test_every_method_is_among_them():
    assert {case.split(",")[0] for case in CASES} == {*METHODS, "supervised"}


def encoder_in_parts(at_a_time: int) -> Encoder:
    torch.manual_seed(0)
    encoder = build_encoder("resnet10", width=1 / 8, small_images=True).train()
    encoder.micro_batch = at_a_time
    return encoder


def states(encoder: Encoder) -> list[torch.Tensor]:
    return [tensor.clone() for tensor in [*encoder.buffers(), *(p.grad for p in encoder.parameters())]]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_batch_norm_sees_each_part_and_counts_it_once(precision):
    """As if the parts were batches of their own: outputs, gradients and running statistics, to the bit."""
    images, weights = torch.randn(10, 3, 16, 16), torch.randn(10, 64)
    parts, plain = encoder_in_parts(4), encoder_in_parts(0)
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
        ours, theirs = parts(images), torch.cat([plain(part) for part in images.split([4, 3, 3])])
    assert ours.dtype == torch.float32
    assert torch.equal(ours, theirs)
    assert not torch.allclose(ours, encoder_in_parts(0)(images), atol=1e-2)
    for outputs in (ours, theirs):
        (outputs * weights).sum().backward()
    assert all(torch.equal(a, b) for a, b in zip(states(parts), states(plain), strict=True))
    assert {int(b) for name, b in parts.named_buffers() if name.endswith("num_batches_tracked")} == {3}


def test_an_averaged_encoder_sees_the_same_parts():
    images, learning, averaged = torch.randn(10, 3, 16, 16), encoder_in_parts(4), encoder_in_parts(4)
    with torch.no_grad():
        outputs = averaged(images)
    assert torch.equal(outputs, learning(images))
    assert all(torch.equal(a, b) for a, b in zip(averaged.buffers(), learning.buffers(), strict=True))


@pytest.mark.parametrize("count", [4, 5, 9, 12, 13])
def test_parts_are_as_equal_as_can_be(count):
    """A last part of one image would leave batch norm without any statistics."""
    encoder, sizes = encoder_in_parts(4), []
    encoder.in_parts(lambda part: sizes.append(len(part)) or part.flatten(1), torch.ones(count, 3, 2, 2))
    assert sum(sizes) == count
    assert max(sizes) <= 4
    assert max(sizes) - min(sizes) <= 1


def test_the_second_forward_draws_the_same_random_numbers():
    encoder = Encoder(nn.Sequential(nn.Flatten(), nn.Dropout(0.5)), 12, {}).train()
    encoder.micro_batch = 2
    images = torch.ones(6, 3, 2, 2, requires_grad=True)
    outputs = encoder(images)
    outputs.sum().backward()
    assert set(outputs.flatten().tolist()) == {0.0, 2.0}
    assert torch.equal(images.grad.flatten(1), outputs)


def test_views_together_are_not_copied_in_micro_batches():
    views, plain, parts = list(torch.randn(2, 6, 3, 16, 16)), encoder_in_parts(0), encoder_in_parts(4)
    assert torch.equal(plain.together(views), encoder_in_parts(0)(torch.cat(views)))
    assert torch.equal(parts.together(views), torch.cat([encoder_in_parts(4)(view) for view in views]))


@pytest.mark.parametrize("precision", ["float32", pytest.param("bfloat16", marks=pytest.mark.slow)])
def test_resumed_to_the_bit(small_recipe, tmp_path, capsys, precision):
    recipe = dataclasses.replace(small_recipe, epochs=1, micro_batch=20, precision=precision)
    pretrain(recipe, tmp_path / "straight")
    assert ", 50 images per step (20 at a time in encoders" in capsys.readouterr().out
    for until in (7, 13, None):
        pretrain(recipe, tmp_path / "stopped", resume=True, until=until)
    for file in ("encoder.safetensors", "checkpoints/000000020/state.safetensors"):
        assert (tmp_path / "straight" / file).read_bytes() == (tmp_path / "stopped" / file).read_bytes()


def test_a_step_that_is_left_out_changes_no_statistics():
    stepper = Stepper(replace(recipe_of("simclr"), micro_batch=AT_A_TIME), photos(), CPU)
    with torch.no_grad():
        stepper.trained[0].fill_(torch.nan)
    before = [buffer.clone() for buffer in stepper.method.buffers()]
    assert not stepper.take(0).sound
    assert all(torch.equal(a, b) for a, b in zip(before, stepper.method.buffers(), strict=True))


def test_one_more_forward_of_work():
    plain = recipe_of("simclr")
    costs = [forward_equivalents(replace(plain, micro_batch=n), photos()) for n in (0, AT_A_TIME)]
    assert costs[1] - costs[0] == pytest.approx(2, rel=1e-6)  # of two views each
