"""The log and signals."""

import signal

import pytest

from hardpair.train.run_folder import Log, stop_on_signals


def test_what_was_logged_at_the_start_outlives_a_kill_before_the_first_checkpoint(tmp_path):
    log = Log(tmp_path / "log.jsonl")
    log.write("compile", step=0, used=True)
    log.write("step", step=10)
    log.rewind(0)
    assert log.last("compile") == {"event": "compile", "step": 0, "used": True}
    assert log.last("step") is None


def test_only_ctrl_c_stops_a_run_that_is_stopping_already():
    """A scheduler's SIGTERM comes twice: from itself and from torchrun."""
    with stop_on_signals() as request:
        for _ in range(2):
            signal.raise_signal(signal.SIGTERM)
        assert request.signal == signal.SIGTERM
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
