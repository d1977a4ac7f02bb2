"""Training steps of narrow encoders in a child process whose C library checks every block of memory that it frees.

Narrow layers are where a CPU library may write past the end of its memory (models/narrow_strides.py). Such a write may
crash, or change other numbers unseen; under these checks it ends the process.
"""

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hardpair.doctor.finding import Finding, bad, good
from hardpair.doctor.options import Doctor
from hardpair.words import several

CHECKED_MEMORY = {
    "LD_PRELOAD": "libc_malloc_debug.so.0",  # since 2.34 glibc's checks are in a library of their own
    "MALLOC_CHECK_": "3",
    "MALLOC_PERTURB_": "165",  # what is freed is overwritten
}
SECONDS = 300


class Case(NamedTuple):
    """A kind of encoder, how wide it is, and the side of its images."""

    kind: str
    width: float
    size: int

    def __str__(self) -> str:
        return f"{self.kind} of width {self.width:g} at {self.size} px"


METHOD_OF = {
    "basic": "simclr",
    "bottleneck": "simclr",
    "selective": "simclr",
    "colour streams": "cmc",
    "patches": "cpc",
}
SHORT = [Case(kind, 1 / 8 if kind == "colour streams" else 1 / 16, 64) for kind in METHOD_OF]


def check_narrow(_options: Doctor) -> Iterator[Finding]:
    """One encoder of each kind."""
    check = "narrow layers"
    if (fault := find_fault(SHORT)) is None:
        yield good(check, f"{several(len(SHORT), 'kind')} of narrow encoders train within their memory")
        return
    advice = "train encoders with at least 16 channels in every layer, or with another version of torch"
    yield bad(check, fault, advice)


def every_case() -> list[Case]:
    """All kinds, widths and sizes; colour streams are two encoders of half the width."""
    grid = itertools.product(METHOD_OF, (1 / 16, 1 / 8, 1 / 4, 1 / 2), (32, 64, 96))
    return [Case(*case) for case in grid if case[0] != "colour streams" or case[1] > 1 / 16]


def find_fault(cases: Sequence[Case], environment: Mapping[str, str] | None = None) -> str | None:
    """Train each in one child process; says which one ended it and how, None where all went well."""
    words = [sys.executable, "-m", "hardpair.doctor.narrow", json.dumps(cases)]
    settings = {**os.environ, **CHECKED_MEMORY, **(environment or {})}
    try:
        child = subprocess.run(words, env=settings, capture_output=True, text=True, timeout=SECONDS, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        return f"training narrow encoders took more than {SECONDS} s"
    if child.returncode == 0:
        return None
    begun = child.stdout.split("\n")[:-1]
    how = signal.Signals(-child.returncode).name if child.returncode < 0 else f"exit code {child.returncode}"
    said = (child.stderr.strip().splitlines() or [""])[-1]
    return f"training {begun[-1] if begun else 'nothing'} ended with {how}{f' ({said})' if said else ''}"


def main(cases: list[Case]) -> None:
    """Name each case before it trains, so that it is known which one ended this process."""
    import torch

    from hardpair.data import open_images
    from hardpair.recipes import Recipe
    from hardpair.train.step import Stepper

    torch.set_num_threads(1)
    for case in cases:
        print(case, flush=True)
        settings: dict[str, int] = {"patch": case.size // 4 & ~1} if case.kind == "patches" else {}
        recipe = Recipe(
            name="narrow",
            method=METHOD_OF[case.kind],
            data="sample:100",
            image_size=case.size,
            encoder="resnet10" if case.kind in ("basic", "colour streams", "patches") else "resnet14",
            width=case.width,
            sk=case.kind == "selective",
            batch_size=8 if case.width <= 1 / 8 else 2,  # wide ones are safe, and slow
            settings=settings,
        )
        stepper = Stepper(recipe, open_images(recipe.data, "train", size=case.size, root=Path()), torch.device("cpu"))
        stepper.method.train()
        if not stepper.take(0).sound:
            sys.exit("the loss or the gradient is not finite")


if __name__ == "__main__":
    main([Case(*case) for case in json.loads(sys.argv[1])])
