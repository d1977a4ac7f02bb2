"""Optimisers, learning rates, health figures and the display."""

import dataclasses
import io
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console
from torch import nn

from hardpair.data import open_images
from hardpair.train.optimisers import build_optimiser, learning_rate
from hardpair.train.progress import Display, Meter, complaints, effective_rank, spread
from hardpair.train.step import Stepper


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


@pytest.mark.parametrize(("clip", "share"), [(0.0, None), (1e6, None), (0.5, 0.5)])
def test_a_step_is_as_long_as_the_clipped_gradient(small_recipe, clip, share):
    """By plain descent: no clipping, none that is needed, and clipping to a half."""
    recipe = dataclasses.replace(small_recipe, optimiser="sgd", weight_decay=0.0, learning_rate=0.1, clip=clip)
    stepper = Stepper(recipe, open_images("sample", "train", size=8, root=Path()), torch.device("cpu"))
    before = [p.detach().clone() for p in stepper.trained]
    norm = stepper.take(0).outputs["gradient_norm"].item()
    assert norm > 0.6  # of the gradient as it was
    moved = torch.cat([(p - old).flatten() for p, old in zip(stepper.trained, before, strict=True)]).norm().item()
    assert moved == pytest.approx(learning_rate(recipe, 0, stepper.steps_per_epoch) * (share or norm), rel=1e-4)


def test_a_rank_that_cannot_be_computed_is_not_a_number(monkeypatch):
    def fail(_):
        raise torch.linalg.LinAlgError("The algorithm failed to converge")

    monkeypatch.setattr(torch.linalg, "eigvalsh", fail)
    assert effective_rank(torch.randn(8, 4)).isnan()


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


def test_effective_rank_counts_directions():
    torch.manual_seed(0)
    flat = torch.randn(500, 3) @ torch.linalg.qr(torch.randn(40, 3)).Q.T
    assert effective_rank(flat) == pytest.approx(3, abs=0.1)
    assert effective_rank(torch.randn(500, 40)) > 38
    assert effective_rank(torch.randn(60, 1) * torch.ones(60, 90)) == pytest.approx(1, abs=0.01)
    assert effective_rank(flat + 7) == pytest.approx(effective_rank(flat).item(), rel=1e-3)


def test_spread_is_near_one_for_free_directions_and_zero_when_collapsed():
    torch.manual_seed(0)
    assert spread(torch.randn(500, 40)) == pytest.approx(1, abs=0.05)
    assert spread(torch.ones(500, 40)) < 1e-6


def test_complaints():
    healthy = {"rank": 40.0, "spread": 0.6, "mined": 0.1}
    assert complaints(healthy) == {}
    assert "collapsed" in complaints({**healthy, "rank": 1.2})["collapse"]
    assert "collapsed" in complaints({**healthy, "spread": 0.001})["collapse"]
    assert "nothing is mined" in complaints({**healthy, "mined": 0.0})["mining"]
    assert complaints({"rank": 40.0, "spread": 0.6}) == {}


FIGURES = {
    "epoch": 1.5,
    "loss": 2.0,
    "images_per_second": 512.3,
    "data_wait": 0.01,
    "mined": 0.125,
    "spread": 0.5,
    "rank": 30.2,
}


@pytest.mark.parametrize(("terminal", "width"), [(True, 80), (True, 200), (False, 80)])
def test_display_shows_what_matters(monkeypatch, terminal, width):
    console = Console(file=io.StringIO(), force_terminal=terminal, width=width, color_system=None, soft_wrap=True)
    clock = SimpleNamespace(now=1000.0, monotonic=lambda: clock.now)
    monkeypatch.setattr("hardpair.train.progress.time", clock)
    with Display(100, console=console) as display:
        display.say("hello [not markup]")
        display.step(1)
        clock.now += 49 * 12
        display.step(50)
        display.figures(50, FIGURES)
    text = console.file.getvalue()
    for words in (
        "hello [not markup]",
        "50/100",
        "loss 2.000",
        "512 images/s",
        "data wait 1%",
        "mined 12.5%",
        "spread 0.50",
    ):
        assert words in text
    assert "left 10 min" in text
    assert terminal or "\x1b" not in text


def test_no_time_left_is_shown_before_it_means_something(monkeypatch):
    """The first step, which may be slow, is no part of it; nor is a resumed run's past."""
    clock = SimpleNamespace(now=1000.0, monotonic=lambda: clock.now)
    monkeypatch.setattr("hardpair.train.progress.time", clock)
    console = Console(file=io.StringIO(), force_terminal=False, width=200, soft_wrap=True)
    with Display(1000, start=499, console=console) as display:
        clock.now += 60
        for step, seconds in ((500, 0), (501, 2), (502, 2), (600, 196)):
            clock.now += seconds
            display.step(step)
            display.last_line = 0.0
            display.figures(step, FIGURES)
    lines = [line for line in console.file.getvalue().splitlines() if line.startswith("step ")]
    assert ["left" in line for line in lines] == [False, False, True, True]
    assert lines[-1].endswith("left 13 min")  # 400 steps of 2 s


def test_the_pace_leaves_the_first_step_out(monkeypatch):
    clock = SimpleNamespace(now=0.0, perf_counter=lambda: clock.now)
    monkeypatch.setattr("hardpair.train.progress.time", clock)
    meter, outputs = Meter(), {"loss": torch.tensor(1.0), "features": torch.eye(4)}
    for seconds in (30.0, 1.0, 1.0):
        clock.now += seconds
        meter.add(outputs, images=10, waited=seconds / 2)
        if seconds == 30:
            meter.restart_clock()
    values = meter.read()
    assert (values["images_per_second"], values["data_wait"], values["loss"]) == (10, 0.5, 1)
