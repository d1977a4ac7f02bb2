"""How much faster are forward and backward once torch.compile has compiled the encoders?

    python benchmarks/compiled.py

The demo's HNPM with ResNet-10 and ResNet-18 of width .25: the check that `hardpair pretrain --compile` makes before the
first step, without its verdict. Compiled and not take turns; the best time of each counts. Compiling takes about a
minute of a core for each encoder, and less the second time, since torch keeps what it compiled.
"""

import time
from dataclasses import replace
from pathlib import Path

import torch
from hardpair.train.trial import Trial, apart, gain, rounding
from record import record

from hardpair.data import open_images
from hardpair.recipes import find_recipe
from hardpair.train import pick_device
from hardpair.train.compiled import compile_encoders
from hardpair.train.step import Stepper

ENCODERS = (("resnet10", 0.25), ("resnet18", 0.25))
REPEATS = 3  # of the whole measurement; how far the ratios are apart says how far to trust them


def measure(encoder: str, width: float) -> dict[str, object]:
    """Ratios of the time without and with compiling, and how far the results are apart."""
    recipe = replace(find_recipe("demo"), encoder=encoder, width=width)
    images = open_images("sample", "train", size=recipe.image_size, root=Path())
    stepper = Stepper(recipe, images, pick_device("cpu"))
    torch.compiler.reset()
    eager, compiled = Trial(stepper, 0), Trial(stepper, 0, compile_encoders)
    expected = eager.results()
    began = time.perf_counter()
    found = compiled.results()
    seconds = time.perf_counter() - began
    ratios = [gain(eager, compiled) for _ in range(REPEATS)]
    differences = {"apart": apart(found, expected), "rounding": rounding(stepper, 0, expected)}
    return {"encoder": encoder, "width": width, "ratios": ratios, "compile_seconds": seconds, **differences}


def main() -> None:
    """Print a line an encoder."""
    print(f"HNPM, views of 24 and 16 px, batch 40, forward and backward, {torch.get_num_threads()} threads")
    print("  encoder   width  times as fast, compiled  gradients apart (rounding)  seconds to compile")
    rows = []
    for encoder, width in ENCODERS:
        row = measure(encoder, width)
        ratios = "  ".join(f"{ratio:.3f}" for ratio in row["ratios"])
        gradients = f"{row['apart']['gradients']:.1g} ({row['rounding']['gradients']:.1g})"
        print(f"  {encoder}  {width:<5}  {ratios:<23}  {gradients:<26}  {row['compile_seconds']:.0f}", flush=True)
        rows.append(row)
    record("compiled", {"encoders": rows})


if __name__ == "__main__":
    main()
