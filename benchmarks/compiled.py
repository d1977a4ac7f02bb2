"""How much faster is a training step with `hardpair pretrain --compile`?

    python benchmarks/compiled.py

The demo's HNPM with ResNet-10 and ResNet-18 of width .25. Compiled and plain steps take turns, several to a turn; the
best turn of each counts. Compiling takes about a minute of one core per encoder, and less the second time, since
torch keeps what it compiled.
"""

import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch
from record import record

from hardpair.data import open_images
from hardpair.recipes import find_recipe
from hardpair.train import pick_device
from hardpair.train.compiled import compile_if_wanted
from hardpair.train.run_folder import Log
from hardpair.train.step import Stepper

ENCODERS = (("resnet10", 0.25), ("resnet18", 0.25))
REPEATS = 3  # of the whole measurement; how far the ratios are apart says how far to trust them
TURNS, STEPS = 10, 10


def seconds(stepper: Stepper) -> float:
    """Of one turn."""
    began = time.perf_counter()
    for step in range(STEPS):
        stepper.take(step)
    return time.perf_counter() - began


def measure(encoder: str, width: float) -> dict[str, object]:
    """Ratios of the time without and with compiling."""
    recipe = replace(find_recipe("demo"), encoder=encoder, width=width)
    images = open_images("sample", "train", size=recipe.image_size, root=Path())
    plain, compiled = (Stepper(recipe, images, pick_device("cpu")) for _ in range(2))
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        text = compile_if_wanted(compiled, Log(Path(folder) / "log.jsonl"), 0, wanted=True)
    row = {"encoder": encoder, "width": width, "check": text, "check_seconds": time.perf_counter() - began}
    for stepper in (plain, compiled):
        stepper.method.train()
        seconds(stepper)
    turns = [[(seconds(plain), seconds(compiled)) for _ in range(TURNS)] for _ in range(REPEATS)]
    ratios = [min(p for p, _ in repeat) / min(c for _, c in repeat) for repeat in turns]
    return {**row, "ratios": ratios}


def main() -> None:
    """Print one line per encoder."""
    print(f"HNPM, views of 24 and 16 px, batch 40, whole steps, {torch.get_num_threads()} threads")
    print("  encoder   width  times as fast, compiled  seconds to compile and check")
    rows = []
    for encoder, width in ENCODERS:
        row = measure(encoder, width)
        ratios = "  ".join(f"{ratio:.3f}" for ratio in row["ratios"])
        print(f"  {encoder}  {width:<5}  {ratios:<23}  {row['check_seconds']:.0f} ({row['check']})", flush=True)
        rows.append(row)
    record("compiled", {"encoders": rows})


if __name__ == "__main__":
    main()
