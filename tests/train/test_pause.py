"""Training in parts: paused where it was asked to be, and in the end the same bit for bit."""

import json
import signal

import pytest
from interruption import interrupt_at

from hardpair import load_encoder
from hardpair.train import Outcome, pretrain
from hardpair.train.run_folder import stop_on_signals


def events(run, *kinds):
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] in kinds]


def test_paused_and_resumed_equals_uninterrupted(finished_run, small_recipe, tmp_path):
    """In an epoch, at its end, and at the end of all."""
    run = tmp_path / "run"
    for step, status in ((7, "paused"), (20, "paused"), (33, "paused"), (40, "finished")):
        assert pretrain(small_recipe, run, resume=True, until=step) == Outcome(status, step)
        assert load_encoder(run).step == step
        assert (run / "checkpoints" / f"{step:09d}" / "state.safetensors").exists()
    for file in ("encoder.safetensors", "checkpoints/000000040/state.safetensors", "pairs.json"):
        assert (run / file).read_bytes() == (finished_run / file).read_bytes(), file
    rates = [{line["step"]: line["learning_rate"] for line in events(r, "step")} for r in (run, finished_run)]
    assert rates[0].items() >= rates[1].items()  # the schedule is that of the whole run
    assert set(rates[0]) == {7, 10, 20, 30, 33, 40}  # and where it paused, a line was logged
    assert [(line["step"], line["reason"]) for line in events(run, "stop")] == [(s, "a pause") for s in (7, 20, 33)]


def test_a_pause_asked_for_again_changes_nothing_and_a_signal_is_no_pause(small_recipe, tmp_path, monkeypatch):
    run = tmp_path / "run"
    assert pretrain(small_recipe, run, until=3) == Outcome("paused", 3)
    with monkeypatch.context() as patch:
        interrupt_at(patch, 4, signal.SIGTERM)
        assert pretrain(small_recipe, run, resume=True, until=5) == Outcome("stopped", 5, signal.SIGTERM)
    content = (run / "encoder.safetensors").read_bytes()
    for step in (5, 3):  # it never goes back
        assert pretrain(small_recipe, run, resume=True, until=step) == Outcome("paused", 5)
        assert (run / "encoder.safetensors").read_bytes() == content


def test_only_ctrl_c_stops_a_run_that_is_stopping_already():
    """A scheduler's SIGTERM comes twice: from itself and from torchrun."""
    with stop_on_signals() as request:
        for _ in range(2):
            signal.raise_signal(signal.SIGTERM)
        assert request.signal == signal.SIGTERM
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
