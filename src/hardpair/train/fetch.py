"""Batches fetched while the step before them is computed: training does not wait for memory, or for a disk."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import Tensor

from hardpair.data import Images


class Fetcher:
    """The images of one step after the other; a thread is always one step ahead."""

    def __init__(self, images: Images, steps: int, device: torch.device) -> None:
        self.images, self.steps, self.device = images, steps, device
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="fetch")
        self.ahead: tuple[int, Tensor, Future[Tensor]] | None = None

    def batch(self, step: int, rows_of: Callable[[int], Tensor]) -> tuple[Tensor, Tensor]:
        """Which images a step sees, and their pixels on the device."""
        if self.ahead is None or self.ahead[0] != step:
            self.ahead = self._begin(step, rows_of)
        _, rows, pixels = self.ahead
        fetched = pixels.result()
        self.ahead = self._begin(step + 1, rows_of) if step + 1 < self.steps else None
        return rows, fetched.to(self.device, non_blocking=True)

    def _begin(self, step: int, rows_of: Callable[[int], Tensor]) -> tuple[int, Tensor, Future[Tensor]]:
        rows = rows_of(step)
        return step, rows, self.thread.submit(self._fetch, rows)

    def _fetch(self, rows: Tensor) -> Tensor:
        pixels = self.images.batch(rows)
        return pixels.pin_memory() if self.device.type == "cuda" else pixels  # or no copy would be in the background
