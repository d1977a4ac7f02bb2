"""Optimisers and learning rates."""

import dataclasses
import math

import pytest
import torch
from torch import nn

from hardpair.errors import UserError
from hardpair.train.optimisers import build_optimiser, learning_rate


def test_cosine_with_warm_up(small_recipe):
    recipe = dataclasses.replace(small_recipe, epochs=10, warmup_epochs=2.0, learning_rate=1.0)
    rates = [learning_rate(recipe, step, 5) for step in range(50)]
    assert rates[:10] == pytest.approx([(k + 1) / 10 for k in range(10)])
    assert rates[10:] == pytest.approx([0.5 * (1 + math.cos(math.pi * k / 40)) for k in range(40)])


def test_papers_cosine_is_torchs_stepped_by_epoch(small_recipe):
    recipe = dataclasses.replace(small_recipe, epochs=12, schedule="paper", learning_rate=0.1)
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=100)
    for epoch in range(12):
        for step in range(7):
            assert learning_rate(recipe, 7 * epoch + step, 7) == pytest.approx(schedule.get_last_lr()[0])
        optimiser.step()
        schedule.step()


def lars_reference(weights, gradients, *, lr, decay, steps):
    """v ← .9 v + r (g + decay w), w ← w - lr v with r = .001 |w| / (|g| + decay |w|); r = 1, decay 0 for vectors."""
    weights = [w.clone() for w in weights]
    velocities = [torch.zeros_like(w) for w in weights]
    for _ in range(steps):
        for w, v, g in zip(weights, velocities, gradients, strict=True):
            wd = decay if w.ndim > 1 else 0.0
            ratio = 0.001 * w.norm() / (g.norm() + wd * w.norm()) if w.ndim > 1 else 1.0
            v.mul_(0.9).add_(ratio * (g + wd * w))
            w.sub_(lr * v)
    return weights


@pytest.mark.parametrize("decay", [0.0, 1e-4])
def test_lars_follows_its_formula(small_recipe, decay):
    torch.manual_seed(0)
    module = nn.Linear(5, 4)
    start = [p.detach().clone() for p in module.parameters()]
    gradients = [torch.randn_like(p) for p in start]
    recipe = dataclasses.replace(small_recipe, optimiser="lars", learning_rate=0.5, weight_decay=decay)
    optimiser = build_optimiser(module, recipe)
    for _ in range(3):
        for parameter, gradient in zip(module.parameters(), gradients, strict=True):
            parameter.grad = gradient.clone()
        optimiser.step()
    for ours, expected in zip(
        module.parameters(), lars_reference(start, gradients, lr=0.5, decay=decay, steps=3), strict=True
    ):
        torch.testing.assert_close(ours.detach(), expected)


@pytest.mark.parametrize("name", ["adam", "sgd", "lars"])
def test_decay_spares_biases_and_norms(small_recipe, name):
    module = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    optimiser = build_optimiser(module, dataclasses.replace(small_recipe, optimiser=name, weight_decay=0.1))
    decayed, spared = optimiser.param_groups
    assert [p.ndim for p in decayed["params"]] == [2]
    assert decayed["weight_decay"] == 0.1
    assert [p.ndim for p in spared["params"]] == [1, 1, 1]
    assert spared["weight_decay"] == 0


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
def test_decay_of_all_parameters_is_torchs_own(small_recipe, name):
    """As in the published codes, which give one optimiser all parameters."""
    plain = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[name]
    momentum = {"momentum": 0.9} if name == "sgd" else {}
    torch.manual_seed(0)
    modules = [nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)) for _ in range(2)]
    modules[1].load_state_dict(modules[0].state_dict())
    recipe = dataclasses.replace(small_recipe, optimiser=name, learning_rate=0.1, weight_decay=0.1, decay_norms=True)
    optimisers = [
        build_optimiser(modules[0], recipe),
        plain(modules[1].parameters(), 0.1, weight_decay=0.1, **momentum),
    ]
    batch = torch.randn(8, 3)
    for _ in range(3):
        for module, optimiser in zip(modules, optimisers, strict=True):
            optimiser.zero_grad()
            (module(batch) * batch).sum().backward()
            optimiser.step()
    for ours, expected in zip(modules[0].parameters(), modules[1].parameters(), strict=True):
        torch.testing.assert_close(ours, expected)


def test_lars_spares_biases_and_norms_always(small_recipe):
    with pytest.raises(UserError, match=r"^decay_norms: lars .*--no-decay-norms"):
        dataclasses.replace(small_recipe, optimiser="lars", decay_norms=True)
