"""Whether images come as fast as the encoder takes them, and how many threads serve it best."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from hardpair.data import open_images
from hardpair.doctor.compute import cores
from hardpair.doctor.finding import Finding, good, warning
from hardpair.doctor.options import Doctor
from hardpair.recipes import find_recipe
from hardpair.train import pick_device
from hardpair.train.step import Stepper
from hardpair.words import several

LONG = 0.5  # seconds of each measurement
WORTH = 1.25  # how much faster another number of threads must be to be worth a word


@dataclass(frozen=True)
class Speed:
    """Seconds of a step of the demo."""

    views: float  # to take a batch and make its views
    whole: float


def check_rate(_options: Doctor) -> Iterator[Finding]:
    """The demo's steps on the bundled photos, with different numbers of threads."""
    recipe, threads, device = find_recipe("demo"), torch.get_num_threads(), pick_device("auto")
    stepper = Stepper(recipe, open_images("sample", "train", size=recipe.image_size, root=Path()), device)
    choices = {1, max(1, cores() // 2), cores(), threads} if device.type == "cpu" else {threads}
    try:
        speeds = {count: _measure(stepper, count) for count in sorted(choices)}
    finally:
        torch.set_num_threads(threads)
    yield _views(speeds[threads], recipe.batch_size)
    yield _threads(speeds, threads)


def _measure(stepper: Stepper, threads: int) -> Speed:
    torch.set_num_threads(threads)
    stepper.method.train()

    def views(step: int) -> None:
        rows = stepper.rows(step)
        stepper.method.views(stepper.images.batch(rows).to(stepper.device), stepper.draw(step, rows))

    return Speed(_seconds(views, stepper.device), _seconds(stepper.take, stepper.device))


def _seconds(act: Callable[[int], object], device: torch.device) -> float:
    """Of one act, on average; the first is not counted."""
    act(0)
    _wait_for(device)
    began, times = time.perf_counter(), 0
    while time.perf_counter() - began < LONG:
        times += 1
        act(times)
        _wait_for(device)
    return (time.perf_counter() - began) / times


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _views(speed: Speed, batch: int) -> Finding:
    """Views are made between steps, where training runs, so their time adds to that of the encoder."""
    share = min(1.0, speed.views / speed.whole)
    rest = max(speed.whole - speed.views, 1e-9)
    found = (
        f"the demo's views come at {batch / speed.views:,.0f} images/s, its encoder takes {batch / rest:,.0f} images/s"
    )
    found += f": {share:.0%} of the time goes into views"
    if share > 0.5:
        return warning("data rate", found, "a larger encoder, or a GPU for views and encoder, would be used better")
    return good("data rate", found)


def _threads(speeds: dict[int, Speed], threads: int) -> Finding:
    best = min(speeds, key=lambda count: speeds[count].whole)
    found = f"the demo runs best with {several(best, 'thread')} of {', '.join(map(str, speeds))} tried"
    gain = speeds[threads].whole / speeds[best].whole
    if gain > WORTH:
        return warning("best threads", found, f"give --threads {best}: {gain:.1f} times as fast as {threads}")
    return good("best threads", found)
