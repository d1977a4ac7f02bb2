"""Where the time of a training step goes.

    python benchmarks/profile_step.py                                   # the demo's encoder, views of 32 px, batch 160
    python benchmarks/profile_step.py --encoder resnet18 --width 1

Whole steps of HNPM under torch's profiler: every operation's own time is attributed to the part of the step that
it belongs to, and the encoder's operations to their kind. Shares of the whole, of all steps together.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import tyro
from record import record
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function
from whole_views import whole_views_recipe

from hardpair.data import open_images
from hardpair.machine import keep_freed_memory
from hardpair.train.step import Stepper

KINDS = {
    "convolutions, backward": ("convolution_backward",),
    "convolutions, forward": ("conv",),
    "batch norm": ("batch_norm",),
    "ReLU and sums of branches": ("relu", "threshold", "add"),
}
REST = "everything else, Python with it"


@dataclass(frozen=True)
class Options:
    """A profile of a step.

    Args:
        encoder: its name.
        width: of its channels.
        steps: that are profiled, after two that are not.
    """

    encoder: str = "resnet10"
    width: float = 0.25
    steps: int = 20


@contextmanager
def named(parts: dict[str, tuple[Any, str]]) -> Iterator[None]:
    """Give the calls of these functions a name in the profile."""
    own = {name: getattr(place, attribute) for name, (place, attribute) in parts.items()}

    def wrapped(name: str) -> Callable[..., Any]:
        def call(*values: Any, **options: Any) -> Any:
            with record_function(name):
                return own[name](*values, **options)

        return call

    for name, (place, attribute) in parts.items():
        setattr(place, attribute, wrapped(name))
    try:
        yield
    finally:
        for name, (place, attribute) in parts.items():
            setattr(place, attribute, own[name])


def part_of(event: Any, parts: dict[str, tuple[Any, str]]) -> str:
    """The part of the step an operation belongs to, or else the kind of the operation or of one that called it."""
    line = [event]
    while line[-1].cpu_parent is not None:
        line.append(line[-1].cpu_parent)
    names = [one.name for one in line]
    for name in names:
        if name in parts:
            return name
    kinds = (kind for name in names for kind, words in KINDS.items() if any(word in name.lower() for word in words))
    return next(kinds, REST)


def main() -> None:
    """Print the shares, the largest first."""
    options = tyro.cli(Options, description=__doc__)
    keep_freed_memory()  # as the command does
    recipe = whole_views_recipe(encoder=options.encoder, width=options.width, batch_size=160)
    images = open_images("sample", "train", size=32, root=Path())
    stepper = Stepper(recipe, images, torch.device("cpu"))
    method = stepper.method
    parts: dict[str, tuple[Any, str]] = {
        "views": (method, "views"),
        "loss, forward": (method, "_loss"),
        "heads, forward": (method.head, "forward"),
        "heads, forward (student)": (method.student[1], "forward"),
        "norm of the gradient": (nn.utils, "get_total_norm"),
        "clipping": (nn.utils, "clip_grads_with_norm_"),
        "Adam": (stepper.optimiser, "step"),
        "moving average": (method, "after_step"),
        "the batch": (stepper.fetcher, "batch"),
    }
    for step in range(2):
        stepper.take(step)
    with named(parts), profile(activities=[ProfilerActivity.CPU]) as seen:
        began = time.perf_counter()
        for step in range(2, 2 + options.steps):
            stepper.take(step)
        seconds = time.perf_counter() - began
    spent: Counter[str] = Counter()
    for event in seen.events() or ():
        spent[part_of(event, parts)] += event.self_cpu_time_total / 1e6
    spent[REST] += seconds - spent.total()
    what = f"{options.encoder} of width {options.width:g}"
    threads, per_step = torch.get_num_threads(), seconds / options.steps
    print(f"HNPM, {what}, 32 px, batch 160, {threads} threads: {per_step:.3f} s per step")
    for name, own in spent.most_common():
        print(f"  {own / seconds:6.1%}  {name}")
    record("profile_step", {"encoder": what, "shares": {name: own / seconds for name, own in spent.items()}})


if __name__ == "__main__":
    main()
