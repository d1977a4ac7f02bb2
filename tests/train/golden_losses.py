"""The losses of ten steps of every method, from a fixed seed. As a program: print them, for golden_losses.json.

A change of these numbers is a change of what is learned: `PYTHONPATH=tests python tests/train/golden_losses.py` makes
the file anew, and the reason belongs into the commit.
"""

import json
from dataclasses import replace
from pathlib import Path

import torch
from shared_steps import CASES, photos, recipe_of

from hardpair.train.step import Stepper

FILE = Path(__file__).with_suffix(".json")
STEPS = 10


def losses(case: str) -> list[float]:
    """Of a tiny encoder on random pixels, with a learning rate at which rounding stays rounding."""
    recipe = replace(recipe_of(case), epochs=4, learning_rate=1e-4)
    stepper = Stepper(recipe, photos(), torch.device("cpu"))
    stepper.method.train()
    return [float(f"{stepper.take(step).outputs['loss'].item():.6g}") for step in range(STEPS)]


if __name__ == "__main__":
    torch.set_num_threads(1)
    lines = (f" {json.dumps(case)}: {json.dumps(losses(case))}" for case in CASES)
    print("{\n" + ",\n".join(lines) + "\n}")
