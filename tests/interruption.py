"""A real signal in the middle of a training step."""

import os
import signal
from collections.abc import Callable

import pytest

from hardpair.train.step import Done, Stepper


def interrupt_at(patch: pytest.MonkeyPatch, step: int, number: int = signal.SIGINT) -> None:
    """Send this process a signal while the given step, from 0, is under way."""
    take = Stepper.take

    def interrupted(self: Stepper, now: int, asked_to_stop: Callable[[], bool]) -> Done:
        if now == step:
            os.kill(os.getpid(), number)
        return take(self, now, asked_to_stop)

    patch.setattr(Stepper, "take", interrupted)
