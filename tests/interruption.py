"""A real signal in the middle of a training step, or of an evaluation."""

import os
import signal
from collections.abc import Callable

import pytest

from hardpair.data import Images
from hardpair.evaluate.finetune import FineTuner
from hardpair.models import Classifier
from hardpair.recipes.tuning import Tuning
from hardpair.train.step import Done, Stepper


def interrupt_at(patch: pytest.MonkeyPatch, step: int, number: int = signal.SIGINT) -> None:
    """Send this process a signal while the given step, from 0, is under way."""
    take = Stepper.take

    def interrupted(self: Stepper, now: int, asked_to_stop: Callable[[], bool]) -> Done:
        if now == step:
            os.kill(os.getpid(), number)
        return take(self, now, asked_to_stop)

    patch.setattr(Stepper, "take", interrupted)


def interrupt_fit(patch: pytest.MonkeyPatch, number: int | None) -> list[str]:
    """Send this process a signal when the fine-tuning of that number, from 0, begins; the labels of those before."""
    begun: list[str] = []
    fit = FineTuner.fit

    def interrupted(self: FineTuner, images: Images, tuning: Tuning, *, label: str) -> Classifier:
        if len(begun) == number:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs are born ignoring it
            os.kill(os.getpid(), signal.SIGINT)
        begun.append(label)
        return fit(self, images, tuning, label=label)

    patch.setattr(FineTuner, "fit", interrupted)
    return begun
