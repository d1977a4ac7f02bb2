"""Peak memory and time of a step of batch 4,096, in one go and in micro-batches, beside what `hardpair plan` says.

    python benchmarks/micro_batch.py                                 # HNPM and SimCLR, a small ResNet-18 at 24 px; 7 GB
    python benchmarks/micro_batch.py --method byol --batch 1024

Goal: in micro-batches of 256 a fifth of the memory and, by the count of operations, 4/3 of the time. With encoders as
small as these, SimCLR's loss of 8,192 x 8,192 pairs is what takes most of the memory then, whatever the micro-batch.
Each line is a process of its own, since memory that a process once had it seldom gives back.
"""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

KINDS = [*(("float32", size) for size in (0, 1024, 256, 64)), ("bfloat16", 0), ("bfloat16", 256)]
"""Precision, and images at a time; 0 is all at once."""


def resident(field: str) -> float:
    """Bytes of memory: VmRSS now, VmHWM at most so far. (getrusage would begin with those of the parent process.)"""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024


def measure(method: str, batch: int, micro_batch: int, precision: str) -> dict[str, Any]:
    """In this process: by how much two steps raise the peak, how long the second takes, and its loss."""
    import torch

    from hardpair.data import open_images
    from hardpair.recipes import find_recipe
    from hardpair.train.plan import Gpus, make_plan
    from hardpair.train.step import Stepper

    size = {"encoder": "resnet18", "width": 0.25, "batch_size": batch, "micro_batch": micro_batch}
    recipe = dataclasses.replace(find_recipe(f"demo/{method}"), **size, precision=precision, epochs=2)
    planned = make_plan(recipe, Gpus(1)).memory
    images = open_images(recipe.data, "train", size=recipe.image_size, root=Path("data"))
    Stepper(dataclasses.replace(recipe, batch_size=8), images, torch.device("cpu")).take(0)  # libraries load before
    before = resident("VmRSS")
    stepper = Stepper(recipe, images, torch.device("cpu"))
    stepper.method.train()
    stepper.take(0)
    began = time.perf_counter()
    outputs = stepper.take(1).outputs
    seconds = time.perf_counter() - began
    loss = float(outputs["loss"])
    return {"rise": resident("VmHWM") - before, "planned": planned.total, "seconds": seconds, "loss": loss}


def main() -> None:
    """One line per method and size of the micro-batches."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", action="append", help="one or more (hnpm, simclr)")
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    methods = options.method or ["hnpm", "simclr"]
    if options.measure:
        micro_batch, precision = options.measure
        print(json.dumps(measure(methods[0], options.batch, int(micro_batch), precision)))
        return
    from record import record

    found = [line for method in methods for line in compare(method, options.batch)]
    record("micro_batch", {"batch": options.batch, "found": found})


def compare(method: str, batch: int) -> list[dict[str, Any]]:
    """Print and return what is found of a method, each line as soon as it is known."""
    found: list[dict[str, Any]] = []
    freed_at_once = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    for precision, micro_batch in KINDS:
        words = ["--method", method, "--batch", str(batch), "--measure", str(micro_batch), precision]
        done = subprocess.run(
            [sys.executable, __file__, *words], check=True, capture_output=True, text=True, env=freed_at_once
        )
        line = {"method": method, "precision": precision, "micro_batch": micro_batch, **json.loads(done.stdout)}
        found.append(line)
        memory, slower = (line[name] / found[0][name] for name in ("rise", "seconds"))
        print(
            f"{method}, {precision}, {f'{micro_batch:,} at a time' if micro_batch else 'all at once'}: peak rises by "
            f"{line['rise'] / 1e6:,.0f} MB (plan: {line['planned'] / 1e6:,.0f}), {memory:.3f} of all at once; "
            f"{slower:.2f} times as long; loss {line['loss']:.4f}",
            flush=True,
        )
    return found


if __name__ == "__main__":
    main()
