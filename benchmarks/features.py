"""Are features extracted at the speed of the encoder's forward?

    python benchmarks/features.py

Extraction: from uint8 images to features in a file of the cache, as every protocol does it. Bare: the same encoder in
eval mode on views that are ready. Both alternate in one run. Two ratios: that of the best times, and the median of the
ratios of neighbours.
"""

import os
import statistics
import tempfile
import time
from pathlib import Path

import torch
from record import record

from hardpair.data import open_images
from hardpair.evaluate.features import BATCH, features_of
from hardpair.machine import keep_freed_memory
from hardpair.models import build_encoder
from hardpair.views import plain_view

CPU, SECONDS = torch.device("cpu"), 40.0


def measure(name: str, width: float) -> dict[str, float]:
    """Best seconds of the bare forward and of the extraction, and their ratios."""
    encoder = build_encoder(name, width=width, small_images=True).eval().to(memory_format=torch.channels_last)
    # Enough images for a second, so that what is done once for a set does not count.
    images = open_images("sample", "test" if width == 1 else "train", size=32, root=Path())
    views = [plain_view(part) for part in images.pixels.split(BATCH)]

    @torch.no_grad()
    def bare() -> None:
        for view in views:
            encoder(view)

    def extraction() -> None:
        with tempfile.TemporaryDirectory() as folder:  # an empty cache
            os.environ["HARDPAIR_CACHE"] = folder
            features_of(encoder, images, CPU)

    times: dict[str, list[float]] = {"bare": [], "extraction": []}
    until = time.perf_counter() + SECONDS
    while time.perf_counter() < until:
        for own, work in zip(times.values(), (bare, extraction), strict=True):
            began = time.perf_counter()
            work()
            own.append(time.perf_counter() - began)
    best = {way: min(own) for way, own in times.items()}
    neighbours = statistics.median(after / before for before, after in zip(*times.values(), strict=True))
    return {
        "bare_seconds": best["bare"],
        "seconds": best["extraction"],
        "ratio": best["extraction"] / best["bare"],
        "ratio_of_neighbours": neighbours,
    }


def main() -> None:
    """Print one line per encoder."""
    keep_freed_memory()  # as the command does
    found = {}
    for name, width in (("resnet10", 0.25), ("resnet18", 0.25), ("resnet18", 1.0)):
        what = f"{name} of width {width:g}"
        found[what] = one = measure(name, width)
        ratios = f"{one['ratio']:.3f} times the bare forward, median of neighbours {one['ratio_of_neighbours']:.3f}"
        print(f"{what}: {ratios}", flush=True)
    record("features", found)


if __name__ == "__main__":
    main()
