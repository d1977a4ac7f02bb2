"""What a whole training step costs beside the bare encoder work.

    python benchmarks/step.py

Bare work: forward and backward of the trained encoder and forward of the averaged one, on views that are ready.
Whole step: from a batch of uint8 images to the updated student, as the trainer runs it. Both alternate in one run, step
by step. Three ratios: that of the best times, since other work on a shared machine only ever adds; the median of the
ratios of neighbours, which slow minutes of a machine do not change; and the median over all steps of a step to what its
own encoders take within it, which not even slow seconds change. The last does not tell whether the encoders are slower
within a step than alone; the others do, but a machine whose speed varies by a third leaves them some per cent of doubt.
Goals: at most 1.03 for resnet18 of width .25, and 1.02 for width 1.
"""

import itertools
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import torch
from record import record
from torch import Tensor, nn
from whole_views import whole_views_recipe

from hardpair.data import open_images
from hardpair.machine import keep_freed_memory
from hardpair.train import pick_device
from hardpair.train.monitor import Meter
from hardpair.train.step import Stepper
from hardpair.views import plain_view

SECONDS = 60.0  # an encoder


class EncoderClock:
    """Adds up what the encoders of HNPM take within steps: forward of both, backward of the trained one."""

    def __init__(self, trained: nn.Module, averaged: nn.Module) -> None:
        self.seconds, self.began = 0.0, 0.0
        for module in (trained, averaged):
            module.register_forward_pre_hook(lambda *_: self.start())
            module.register_forward_hook(lambda *_: self.stop())
        trained.register_forward_hook(self._await_gradient)

    def start(self) -> None:
        """Time runs."""
        self.began = time.perf_counter()

    def stop(self) -> None:
        """And no longer."""
        self.seconds += time.perf_counter() - self.began

    def _await_gradient(self, _module: nn.Module, _images: object, features: Tensor) -> None:
        """The trained encoder comes last in backward: its part begins when the gradient of its features is there."""
        features.register_hook(lambda _: self.start())

    @contextmanager
    def until_backward_ends(self) -> Iterator[None]:
        """Within this block, the end of a backward stops the clock."""
        whole = Tensor.backward

        def backward(loss: Tensor) -> None:
            whole(loss)
            self.stop()

        with patch.object(Tensor, "backward", backward):
            yield


def measure(encoder: str, width: float) -> dict[str, float]:
    """Seconds of the bare work and of a whole step, and their ratios."""
    recipe = whole_views_recipe(encoder=encoder, width=width, batch_size=160)
    images = open_images("sample", "train", size=32, root=Path())
    stepper, meter = Stepper(recipe, images, pick_device("cpu")), Meter()
    method = stepper.method
    view = plain_view(images.pixels[: recipe.batch_size]).contiguous(memory_format=torch.channels_last)
    student = method.student[0]

    def bare() -> None:
        method.encoder(view).sum().backward()
        with torch.no_grad():
            student(view)

    steps = itertools.cycle(range(stepper.total))

    clock = EncoderClock(method.encoder, student)
    shares = []

    def whole() -> None:
        clock.seconds, began = 0.0, time.perf_counter()
        with clock.until_backward_ends():
            done = stepper.take(next(steps))
        meter.add(done.outputs, images=recipe.batch_size, waited=done.waited)
        shares.append((time.perf_counter() - began) / clock.seconds)

    times: dict[str, list[float]] = {"bare": [], "step": []}
    until = time.perf_counter() + SECONDS * (3 if width == 1 else 1)
    while time.perf_counter() < until:
        for name, work in (("bare", bare), ("step", whole)):
            method.zero_grad(set_to_none=True)
            began = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - began)
    bare_best, step_best = min(times["bare"]), min(times["step"])
    neighbours = statistics.median(after / before for before, after in zip(*times.values(), strict=True))
    found = {"bare_seconds": bare_best, "step_seconds": step_best, "ratio": step_best / bare_best}
    return {
        **found,
        "ratio_of_neighbours": neighbours,
        "ratio_within": statistics.median(shares),
        "pairs": len(times["bare"]),
    }


def main() -> None:
    """Print one line per encoder."""
    keep_freed_memory()  # as the command does
    print(f"training step at 32 px, batch 160, {torch.get_num_threads()} threads")
    found = {}
    for encoder, width in (("resnet10", 0.25), ("resnet18", 0.25), ("resnet18", 1.0)):
        found[f"{encoder} of width {width:g}"] = one = measure(encoder, width)
        times = f"bare {one['bare_seconds'] * 1e3:7.1f} ms  whole {one['step_seconds'] * 1e3:7.1f} ms"
        ratios = f"ratio {one['ratio']:.3f}, of neighbours {one['ratio_of_neighbours']:.3f}, "
        ratios += f"within steps {one['ratio_within']:.3f}"
        print(f"  {encoder} width {width:<5} {times}  {ratios}", flush=True)
    record("step", found)


if __name__ == "__main__":
    main()
