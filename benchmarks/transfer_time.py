"""The linear transfer protocol on Flowers-102, whole, in units of the time that extracting its features takes.

    python benchmarks/transfer_time.py --run runs/demo --data-root FOLDER     where FOLDER holds flowers-102/

Goal: at most 1.5. Decoding the images is not counted, since it is done once and kept; features come from no cache.
"""

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import tyro
from record import record

from hardpair.data.transfer import MissingSetError, open_transfer
from hardpair.evaluate.context import Context
from hardpair.evaluate.features import features_of, outputs
from hardpair.evaluate.transfer import transfer_tasks
from hardpair.models import Encoder, build_encoder, load_encoder
from hardpair.protocol_settings import Settings, Transferred

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Options:
    """What to measure.

    Args:
        run: a run whose encoder is used; without one, an untrained encoder of the demo's shape.
        image_size: pixels.
        data_root: where flowers-102 lies.
    """

    run: Path | None = None
    image_size: int = 96
    data_root: Path = Path("data")


def main() -> None:
    """Extract alone, then the whole protocol from an empty cache; print the ratio."""
    options = tyro.cli(Options, description=__doc__)
    encoder = load_encoder(options.run) if options.run else untrained()
    try:
        parts = [
            open_transfer("flowers102", split, size=options.image_size, root=options.data_root)
            for split in ("train", "validation", "test")
        ]
    except MissingSetError as missing:
        print(f"skipped: {missing}")
        return
    outputs(encoder, parts[0], CPU)  # the first pass is slower than the rest
    extraction = timed(lambda: [features_of(encoder, part, CPU) for part in parts])
    context = Context(
        options.run or Path(), encoder, source="", size=options.image_size, seed=0, on="test",
        root=options.data_root, device=CPU, say=lambda _: None,
    )  # fmt: skip
    (task,) = transfer_tasks(context, Settings(transferred=Transferred(sets=("flowers102",))))
    score = {}
    whole = timed(lambda: score.update(task.measure(encoder).metrics))
    result = {
        "images": sum(map(len, parts)),
        "image_size": options.image_size,
        "features": encoder.num_features,
        "extraction_seconds": round(extraction, 2),
        "whole_seconds": round(whole, 2),
        "ratio": round(whole / extraction, 3),
        **score,
    }
    record("transfer_time", result)
    print(f"the whole protocol takes {result['ratio']} times as long as the features alone (goal: at most 1.5)")


def timed(work) -> float:
    """Seconds, with a cache of its own that is empty; the decoded images are in memory already."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HARDPAIR_CACHE"] = folder
        began = time.perf_counter()
        work()
        return time.perf_counter() - began


def untrained() -> Encoder:
    """The demo's encoder, as random as it begins."""
    torch.manual_seed(0)
    return build_encoder("resnet10", width=0.25, small_images=True).eval()


if __name__ == "__main__":
    main()
