"""What every method must do, run over all of METHODS."""

import copy

import pytest
import torch
from small_methods import build, one_loss, views

from hardpair import METHODS
from hardpair.precision import autocast

EASY = {
    "moco": {"queue": 8, "momentum": 0.9, "view": "crop", "temperature": 0.1},
    "infomin": {"queue": 8, "momentum": 0.9, "view": "jigsaw"},
    "simclrv2": {"view": "crop"},
}
"""A queue as long as the batch would hold each image's own keys as negatives: with 32 images it must be short. And with
strong colours and a temperature of .1 the loss would fall by half a percent only in 25 steps."""


@pytest.mark.parametrize("name", METHODS)
class TestContract:
    def test_loss_is_finite_and_outputs_are_named(self, name):
        method = build(name)
        outputs = method(views(method))
        assert outputs["loss"].ndim == 0
        assert outputs["loss"].isfinite()
        assert outputs["features"].shape == (32, method.encoder.num_features)
        assert not outputs["features"].requires_grad

    def test_gradient_reaches_what_is_trained_and_nothing_else(self, name):
        method = build(name)
        one_loss(method).backward()
        for parameter_name, parameter in method.named_parameters():
            reached = parameter.grad is not None and bool(parameter.grad.abs().sum() > 0)
            assert reached == parameter.requires_grad, parameter_name

    def test_in_half_precision_too(self, name):
        """Autocast keeps a weight it has rounded; without a gradient, should it first be used where none is made."""
        plain, method = one_loss(build(name)), build(name)
        shown, inside = views(method), []
        layer = next(module for module in method.encoder.modules() if isinstance(module, torch.nn.Conv2d))
        layer.register_forward_hook(lambda _module, _inputs, output: inside.append(output.dtype))
        with autocast("bfloat16", torch.device("cpu")):
            outputs = method(shown)
        assert set(inside) == {torch.bfloat16}
        assert {output.dtype for output in outputs.values()} == {torch.float32}
        assert outputs["loss"].item() == pytest.approx(plain.item(), rel=0.02)
        outputs["loss"].backward()
        for parameter_name, parameter in method.named_parameters():
            reached = parameter.grad is not None and bool(parameter.grad.abs().sum() > 0)
            assert reached == parameter.requires_grad, parameter_name
        method.after_step(0.5)
        assert {value.dtype for value in method.state_dict().values()} <= {torch.float32, torch.int64}

    def test_same_seed_same_loss(self, name):
        assert torch.equal(one_loss(build(name)), one_loss(build(name)))
        assert not torch.equal(one_loss(build(name), 0), one_loss(build(name), 1))

    def test_state_round_trip(self, name):
        method, other = build(name), build(name)
        one_loss(method).backward()
        torch.optim.SGD([p for p in method.parameters() if p.requires_grad], lr=0.1).step()
        method.after_step(0.5)
        other.load_state_dict(copy.deepcopy(method.state_dict()))
        assert torch.equal(one_loss(method, 1), one_loss(other, 1))

    def test_forward_leaves_memories_alone_until_the_step_is_done(self, name):
        """The same views give the same loss twice, however often forward runs."""
        method = build(name)
        assert torch.equal(one_loss(method), one_loss(method))


SLOW = ("cpc", "infomin")  # 49 patches per image, and a third view of nine patches


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in METHODS])
def test_loss_falls_on_32_images(name):
    method = build(name, **EASY.get(name, {}))
    optimiser = torch.optim.Adam([p for p in method.parameters() if p.requires_grad], lr=2e-3)
    losses = []
    steps = 12 if name == "cpc" else 25  # its steps are slow: 49 patches per image
    for step in range(steps):
        loss = one_loss(method, step)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        method.after_step((step + 1) / steps)
        losses.append(loss.item())
    # Not from the first step: a queue begins with random directions, which are easy to tell from anything.
    assert sum(losses[-5:]) < sum(losses[3:8])
