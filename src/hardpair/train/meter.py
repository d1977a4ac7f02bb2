"""Averages between two log lines, kept on the device so that a step never waits for a number."""

import time
from collections.abc import Mapping

import torch
from torch import Tensor

from hardpair import distributed
from hardpair.train.health import effective_rank, spread


class Meter:
    """Adds up what steps report; `read` gives averages and starts anew."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self.sums: dict[str, Tensor] = {}
        self.features: Tensor | None = None
        self.steps = 0
        self.restart_clock()

    def restart_clock(self) -> None:
        """Measure images per second and data wait from here on; other averages are kept."""
        self.images, self.waited, self.began = 0, 0.0, time.perf_counter()

    def add(self, outputs: Mapping[str, Tensor], *, images: int, waited: float) -> None:
        """Take in one step's outputs: scalars are averaged, features are kept for the health figures."""
        for name, value in outputs.items():
            if value.ndim == 0:
                self.sums[name] = self.sums.get(name, torch.zeros_like(value)) + value.detach()
        self.features = outputs["features"]
        self.steps, self.images, self.waited = self.steps + 1, self.images + images, self.waited + waited

    def state(self) -> dict[str, Tensor]:
        """What was added up so far, for a checkpoint: a run that goes on from there logs the same averages."""
        return {**self.sums, "steps": torch.tensor(self.steps)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from there."""
        self.sums = {name: value.clone() for name, value in state.items() if name != "steps"}
        self.steps = int(state.get("steps", 0))

    def read(self) -> dict[str, float]:
        """Averages since the last reading."""
        assert self.features is not None
        averages = {name: total.float() / self.steps for name, total in self.sums.items()}
        features = distributed.gather(self.features)
        averages |= {"spread": spread(features), "rank": effective_rank(features).float()}
        # One wait for the device, for all figures together.
        values = dict(zip(averages, distributed.mean(torch.stack(list(averages.values()))).tolist(), strict=True))
        seconds = time.perf_counter() - self.began
        values |= {"images_per_second": self.images / seconds, "data_wait": self.waited / seconds}
        self._reset()
        return values
