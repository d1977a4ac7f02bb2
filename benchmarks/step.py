"""What a whole training step costs beside the bare encoder work.

    python benchmarks/step.py

Bare work: forward and backward of the trained encoder and forward of the averaged one, on views that are ready.
Whole step: from a batch of uint8 images to the updated student, as the trainer runs it. Both alternate in one run, step
by step. Two ratios: that of the best times, since other work on a shared machine only ever adds, and the median of the
ratios of neighbours, which slow minutes of a machine do not change. Goals: at most 1.03 for resnet18 of width .25, and
1.02 for width 1.
"""

import itertools
import statistics
import time
from pathlib import Path

import torch
from record import record
from whole_views import whole_views_recipe

from hardpair.data import open_images
from hardpair.machine import keep_freed_memory
from hardpair.train import pick_device
from hardpair.train.meter import Meter
from hardpair.train.step import Stepper
from hardpair.views import plain_view

SECONDS = 60.0  # an encoder


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

    def whole() -> None:
        done = stepper.take(next(steps))
        meter.add(done.outputs, images=recipe.batch_size, waited=done.waited)

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
    return {**found, "ratio_of_neighbours": neighbours, "pairs": len(times["bare"])}


def main() -> None:
    """Print a line an encoder."""
    keep_freed_memory()  # as the command does
    print(f"training step at 32 px, batch 160, {torch.get_num_threads()} threads")
    found = {}
    for encoder, width in (("resnet10", 0.25), ("resnet18", 0.25), ("resnet18", 1.0)):
        found[f"{encoder} of width {width:g}"] = one = measure(encoder, width)
        times = f"bare {one['bare_seconds'] * 1e3:7.1f} ms  whole {one['step_seconds'] * 1e3:7.1f} ms"
        ratios = f"ratio {one['ratio']:.3f}, of neighbours {one['ratio_of_neighbours']:.3f}"
        print(f"  {encoder} width {width:<5} {times}  {ratios}", flush=True)
    record("step", found)


if __name__ == "__main__":
    main()
