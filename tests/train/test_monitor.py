"""Averages, signs of collapse, and the display."""

import io
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console

from hardpair.train.monitor import Display, Meter, complaints, effective_rank, spread


def test_a_rank_that_cannot_be_computed_is_not_a_number(monkeypatch):
    def fail(_):
        raise torch.linalg.LinAlgError("The algorithm failed to converge")

    monkeypatch.setattr(torch.linalg, "eigvalsh", fail)
    assert effective_rank(torch.randn(8, 4)).isnan()


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
    monkeypatch.setattr("hardpair.train.monitor.time", clock)
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
    monkeypatch.setattr("hardpair.train.monitor.time", clock)
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
    monkeypatch.setattr("hardpair.train.monitor.time", clock)
    meter, outputs = Meter(), {"loss": torch.tensor(1.0), "features": torch.eye(4)}
    for seconds in (30.0, 1.0, 1.0):
        clock.now += seconds
        meter.add(outputs, images=10, waited=seconds / 2)
        if seconds == 30:
            meter.restart_clock()
    values = meter.read()
    assert (values["images_per_second"], values["data_wait"], values["loss"]) == (10, 0.5, 1)
