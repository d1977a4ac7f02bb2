"""Are features extracted at the speed of the encoder's forward?

    python benchmarks/features.py

Extraction: from uint8 images to features in a file of the cache, as every protocol does it. Bare: the same encoder in
eval mode on views that are ready. Both alternate in one run; the ratio is that of the best times.
"""

import os
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

CPU, TURNS = torch.device("cpu"), 5


def measure(name: str, width: float) -> tuple[float, float]:
    """Best seconds of the bare forward and of the extraction."""
    encoder = build_encoder(name, width=width, small_images=True).eval().to(memory_format=torch.channels_last)
    images = open_images("sample", "test", size=32, root=Path())
    views = [plain_view(part) for part in images.pixels.split(BATCH)]

    @torch.no_grad()
    def bare() -> None:
        for view in views:
            encoder(view)

    def extraction() -> None:
        with tempfile.TemporaryDirectory() as folder:  # an empty cache
            os.environ["HARDPAIR_CACHE"] = folder
            features_of(encoder, images, CPU)

    best = {bare: float("inf"), extraction: float("inf")}
    for _ in range(TURNS):
        for work in best:
            began = time.perf_counter()
            work()
            best[work] = min(best[work], time.perf_counter() - began)
    return best[bare], best[extraction]


def main() -> None:
    """Print a line an encoder."""
    keep_freed_memory()  # as the command does
    found = {}
    for name, width in (("resnet10", 0.25), ("resnet18", 0.25), ("resnet18", 1.0)):
        bare, whole = measure(name, width)
        found[f"{name} of width {width:g}"] = {"bare_seconds": bare, "seconds": whole, "ratio": whole / bare}
        print(f"{name} of width {width:g}: {whole / bare:.3f} times the bare forward", flush=True)
    record("features", found)


if __name__ == "__main__":
    main()
