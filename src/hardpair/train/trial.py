"""A step tried out on a copy of the method: what it gives, and how long it takes, without a trace in the run."""

import copy
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from hardpair import distributed
from hardpair.methods import Method
from hardpair.train.step import STATISTICS, Stepper, averaging_gradients

NUDGE, NUDGES = 2.0**-20, 3
TURNS, SECONDS = 7, 5.0  # at least

Results = dict[str, list[Tensor]]


class Trial:
    """A changed copy of the method, which goes forward and back on the batch that the run's step has."""

    def __init__(self, stepper: Stepper, step: int, change: Callable[[Method], object] = lambda _: None) -> None:
        rows = stepper.rows(step)
        images = stepper.images.batch(rows).to(stepper.device)
        self.views = stepper.method.views(images, stepper.draw(step, rows))
        self.method = copy.deepcopy(stepper.method).train()
        change(self.method)
        shared = distributed.world_size() > 1
        self.forward: nn.Module = averaging_gradients(self.method, stepper.device) if shared else self.method

    def take(self) -> Tensor:
        """The loss, once the gradients are there as well."""
        self.method.zero_grad(set_to_none=True)
        loss: Tensor = self.forward(self.views)["loss"]
        loss.backward()
        if loss.device.type != "cpu":
            torch.accelerator.synchronize(loss.device)
        return loss.detach()

    def results(self) -> Results:
        """All that a run takes from forward and backward."""
        loss = self.take()
        trained = [p for p in self.method.parameters() if p.requires_grad]
        buffers = [b for name, b in self.method.named_buffers() if name.endswith(STATISTICS)]
        return {
            "loss": [loss],
            "gradients": [torch.zeros_like(p) if p.grad is None else p.grad for p in trained],
            "statistics": [b.to(torch.float32, copy=True) for b in buffers],
        }


def apart(ours: Results, theirs: Results) -> dict[str, float]:
    """How long the difference of each result is, as a share of theirs."""
    found = {}
    for name, expected in theirs.items():
        difference = [a - b for a, b in zip(ours[name], expected, strict=True)]
        lengths = [float(nn.utils.get_total_norm(tensors)) for tensors in (difference, expected)]
        found[name] = lengths[0] / max(lengths[1], torch.finfo(torch.float32).tiny)
    return found


def rounding(stepper: Stepper, step: int, expected: Results) -> dict[str, float]:
    """How far the results move, at most, when every weight changes by up to a millionth: about what rounding does."""
    moved = [apart(Trial(stepper, step, _nudge(seed)).results(), expected) for seed in range(NUDGES)]
    return {name: max(distances[name] for distances in moved) for name in expected}


def _nudge(seed: int) -> Callable[[Method], None]:
    @torch.no_grad()
    def nudge(method: Method) -> None:
        chance = torch.Generator(next(method.parameters()).device).manual_seed(seed)
        for parameter in method.parameters():
            parameter.mul_(1 + NUDGE * torch.empty_like(parameter).uniform_(-1, 1, generator=chance))

    return nudge


def gain(before: Trial, after: Trial) -> float:
    """How many times as fast the second is, by the best of their turns and by the middle one, whichever says less.

    Other work on a machine only ever adds time, so the best tell most; on a busy machine one of them may be luck.
    Clocks of processes differ, and in a turn they wait for each other: all go on for as long as any does.
    """
    times: dict[Trial, list[float]] = {before: [], after: []}
    end, device = time.perf_counter() + SECONDS, next(before.method.parameters()).device
    while distributed.any_rank(len(times[before]) < TURNS or time.perf_counter() < end, device=device)[0]:
        for trial, seconds in times.items():
            began = time.perf_counter()
            trial.take()
            seconds.append(time.perf_counter() - began)
    return min(of(times[before]) / of(times[after]) for of in (min, statistics.median))
