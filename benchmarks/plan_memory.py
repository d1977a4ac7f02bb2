"""Memory that `hardpair plan` predicts, beside the peak of a real process that takes two steps on the CPU.

    python benchmarks/plan_memory.py

Goal: the peak is within 10 % of the plan. The plan is made for a GPU, but what it counts is the same here.
"""

import dataclasses
import os
import resource
import subprocess
import sys
from pathlib import Path

import torch

from hardpair.data import outline_images
from hardpair.recipes import Recipe, find_recipe
from hardpair.train.optimisers import build_optimiser
from hardpair.train.plan import Gpus, make_plan
from hardpair.train.step import build_method
from hardpair.views import Draw

NAMES = ("imagenet/hnpm", "imagenet/simclr", "imagenet/byol", "imagenet/simsiam")
IMAGES, SIZE, BATCH = 5000, 128, 16


def resident() -> int:
    """Bytes of memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def two_steps(recipe: Recipe) -> None:
    """As the trainer takes them; the second finds the optimiser's state in place."""
    images = outline_images(recipe.data, size=SIZE, count=IMAGES).images
    method = build_method(recipe, images).to(memory_format=torch.channels_last)
    optimiser = build_optimiser(method, recipe)
    rows = torch.arange(BATCH)
    for step in range(2):
        views = method.views(images.batch(rows), Draw(0, step, rows, rows=rows, size=recipe.view_pixels))
        method(views)["loss"].backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        method.after_step(0.5)


def compare(name: str) -> None:
    """Print one line; in a process of its own, since a peak never falls."""
    recipe = dataclasses.replace(find_recipe(name), image_size=SIZE, batch_size=BATCH)
    plan = make_plan(recipe, Gpus(1), images=IMAGES)
    before = resident()
    two_steps(recipe)
    rise = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    print(
        f"{name}, {SIZE} px, batch {BATCH}: planned {plan.memory.total / 1e6:,.0f} MB, of them "
        f"{plan.memory.activations / 1e6:,.0f} for the backward; peak {rise / 1e6:,.0f} MB; "
        f"peak ÷ plan {rise / plan.memory.total:.3f}"
    )


def main() -> None:
    """Each method in its own process, told to give freed memory back at once."""
    if len(sys.argv) > 1:
        compare(sys.argv[1])
        return
    for name in NAMES:
        subprocess.run(
            [sys.executable, __file__, name], check=True, env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
        )


if __name__ == "__main__":
    main()
