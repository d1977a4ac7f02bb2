"""What a whole training step costs beside the bare encoder work.

    python benchmarks/step.py

Bare work: forward and backward of the trained encoder and forward of the averaged one, on views that are ready.
Whole step: from a batch of uint8 images to the updated student, as the trainer runs it. Both alternate in one run;
the ratio is that of the best times, since other work on a shared machine only ever adds. Goals: at most 1.03 for
resnet18 of width .25, and 1.02 for width 1.
"""

import time
from dataclasses import replace
from pathlib import Path

import torch
from record import record

from hardpair.data import open_images
from hardpair.recipes import find_recipe
from hardpair.train import pick_device
from hardpair.train.meter import Meter
from hardpair.train.step import Stepper
from hardpair.views import plain_view

SECONDS = 40.0  # an encoder


def measure(encoder: str, width: float) -> tuple[float, float]:
    """Best seconds of the bare work and of a whole step."""
    demo = find_recipe("demo")
    settings = {**demo.settings, "small_views": 0}
    recipe = replace(demo, encoder=encoder, width=width, batch_size=160, view_size=1.0, settings=settings)
    images = open_images("sample", "train", size=32, root=Path())
    stepper, meter = Stepper(recipe, images, pick_device("cpu")), Meter()
    method = stepper.method
    view = plain_view(images.pixels[: recipe.batch_size]).contiguous(memory_format=torch.channels_last)
    student = method.student[0]

    def bare() -> None:
        method.encoder(view).sum().backward()
        with torch.no_grad():
            student(view)

    def whole() -> None:
        done = stepper.take(0)
        meter.add(done.outputs, images=recipe.batch_size, waited=done.waited)

    times: dict[str, list[float]] = {"bare": [], "step": []}
    until = time.perf_counter() + SECONDS * (4 if width == 1 else 1)
    while time.perf_counter() < until:
        for name, work in (("bare", bare), ("step", whole)):
            method.zero_grad(set_to_none=True)
            began = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - began)
    return min(times["bare"]), min(times["step"])


def main() -> None:
    """Print a line an encoder."""
    print(f"training step at 32 px, batch 160, {torch.get_num_threads()} threads")
    found = {}
    for encoder, width in (("resnet10", 0.25), ("resnet18", 0.25), ("resnet18", 1.0)):
        bare, step = measure(encoder, width)
        found[f"{encoder} of width {width:g}"] = {"bare_seconds": bare, "step_seconds": step, "ratio": step / bare}
        times = f"bare {bare * 1e3:7.1f} ms  whole {step * 1e3:7.1f} ms"
        print(f"  {encoder} width {width:<5} {times}  ratio {step / bare:.3f}", flush=True)
    record("step", found)


if __name__ == "__main__":
    main()
