"""Speed-up on a CPU when a process keeps the memory it frees (src/hardpair/machine.py).

    python benchmarks/freed_memory.py

Steps of HNPM and features, each in a process that keeps freed memory and in one that does not, by turns of a second or
two; the ratio is the median of those of neighbouring turns. Beside it the pages that the system handed out at each
pass, which no other work disturbs.
"""

import itertools
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from record import record
from turns import Side, take_turns
from whole_views import whole_views_recipe

from hardpair.data import open_images
from hardpair.machine import keep_freed_memory
from hardpair.models import build_encoder
from hardpair.train.step import Stepper

CPU, TURNS, SECONDS = torch.device("cpu"), 15, 1.5


def step(encoder: str, width: float) -> Callable[[], object]:
    """A step of HNPM at 32 px with a batch of 160."""
    recipe = whole_views_recipe(encoder=encoder, width=width, batch_size=160)
    stepper = Stepper(recipe, open_images("sample", "train", size=32, root=Path()), CPU)
    steps = itertools.cycle(range(stepper.total))
    return lambda: stepper.take(next(steps))


def features(name: str, pixels: int, batch: int) -> Callable[[], object]:
    """The forward of a ResNet in eval mode."""
    encoder = build_encoder(name, small_images=pixels < 64).eval().to(memory_format=torch.channels_last)
    images = torch.zeros(batch, 3, pixels, pixels).contiguous(memory_format=torch.channels_last)
    return torch.no_grad()(lambda: encoder(images))


WORK: dict[str, Callable[[], Callable[[], object]]] = {
    "step, ResNet-10 of width .25, 32 px": lambda: step("resnet10", 0.25),
    "step, ResNet-18, 32 px": lambda: step("resnet18", 1.0),
    "features, ResNet-18, 32 px": lambda: features("resnet18", 32, 256),
    "features, ResNet-50, 224 px": lambda: features("resnet50", 224, 32),
}


def measure(name: str, keep: bool) -> None:
    """Take turns; each gives the median of the seconds of a pass, and the pages of an average one."""
    if keep:
        assert keep_freed_memory(), "this C library has no such setting"
    work = WORK[name]()
    for _ in range(2):
        work()

    def turn() -> str:
        before, end, times = pages(), time.perf_counter() + SECONDS, []
        while not times or time.perf_counter() < end:
            began = time.perf_counter()
            work()
            times.append(time.perf_counter() - began)
        return json.dumps([statistics.median(times), (pages() - before) / len(times)])

    take_turns(turn)


def pages() -> int:
    """How many the system has handed to this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def main() -> None:
    """Print a line for each kind of work."""
    if len(sys.argv) > 1:
        measure(sys.argv[1], sys.argv[2] == "keep")
        return
    found = {}
    for name in WORK:
        sides = {way: Side([sys.executable, __file__, name, way]) for way in ("free", "keep")}
        turns: dict[str, list[list[float]]] = {way: [] for way in sides}
        for _ in range(TURNS):
            for way, side in sides.items():
                turns[way].append(json.loads(side.turn()))
        for side in sides.values():
            side.end()
        ratio = statistics.median(free / keep for (free, _), (keep, _) in zip(*turns.values(), strict=True))
        seconds = {way: [statistics.median(column) for column in zip(*own, strict=True)] for way, own in turns.items()}
        found[name] = {**{way: {"seconds": s, "pages": p} for way, (s, p) in seconds.items()}, "ratio": ratio}
        pages_of = " → ".join(f"{p:,.0f}" for _, p in seconds.values())
        print(f"{name}: {ratio:.2f} times as fast; pages {pages_of}", flush=True)
    record("freed_memory", found)


if __name__ == "__main__":
    main()
