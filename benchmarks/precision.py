"""How much faster is a training step in bfloat16 than in float32?

    python benchmarks/precision.py [--threads 1]

Whole steps of HNPM, views and optimiser included, of the same stepper in both precisions by turns: the best times, and
the median of the ratios of neighbours. On a processor without bfloat16 the ratios are below one.
"""

import argparse
import dataclasses
import statistics
import time

import torch
from record import record

from hardpair.data import outline_images
from hardpair.machine import prepare_to_compute
from hardpair.precision import has_bfloat16
from hardpair.recipes import Recipe, find_recipe, with_encoder
from hardpair.train.step import Stepper

CPU, PAIRS = torch.device("cpu"), 12
DEMO = dataclasses.replace(find_recipe("demo"), batch_size=160, epochs=1000)
LARGER = {"image_size": 64, "view_size": 1.0, "batch_size": 32}
ENCODERS = {
    "ResNet-10, width .25, 24 px, batch 40": dataclasses.replace(DEMO, batch_size=40),
    "ResNet-10, width .25, 24 px, batch 160": DEMO,
    "ResNet-18, width 1, 24 px, batch 80": dataclasses.replace(DEMO, encoder="resnet18", width=1.0, batch_size=80),
    "ViT-Tiny/16, 64 px, batch 32": dataclasses.replace(with_encoder(DEMO, "vit_tiny_patch16_224"), **LARGER),
    "ConvNeXt-Atto, 64 px, batch 32": dataclasses.replace(with_encoder(DEMO, "convnext_atto"), **LARGER),
}


def measure(recipe: Recipe) -> dict[str, float]:
    """Seconds of a step in both precisions, and float32 ÷ bfloat16."""
    stepper = Stepper(recipe, outline_images("sample", size=recipe.image_size).images, CPU)
    stepper.method.train()
    both = [dataclasses.replace(recipe, precision=name) for name in ("float32", "bfloat16")]
    times: list[list[float]] = [[], []]
    for step in range(PAIRS + 1):
        for own, stepper.recipe in zip(times, both, strict=True):
            began = time.perf_counter()
            stepper.take(step)
            own.append(time.perf_counter() - began)
    full, half = times[0][1:], times[1][1:]  # the first of each warms up
    neighbours = statistics.median(a / b for a, b in zip(full, half, strict=True))
    best = {"float32_seconds": min(full), "bfloat16_seconds": min(half)}
    return {**best, "ratio": min(full) / min(half), "ratio_of_neighbours": neighbours}


def main() -> None:
    """Measure each encoder, print and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=0, help="of torch; 0 leaves the choice to it")
    prepare_to_compute(parser.parse_args().threads)
    found = {}
    for name, recipe in ENCODERS.items():
        found[name] = measure(recipe)
        print(f"{name:40} {found[name]['ratio']:.2f} (neighbours {found[name]['ratio_of_neighbours']:.2f})", flush=True)
    record("precision", {"has_bfloat16": has_bfloat16(CPU), "encoders": found})


if __name__ == "__main__":
    main()
