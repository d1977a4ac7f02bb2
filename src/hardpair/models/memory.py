"""What methods remember of images seen before: a queue of the latest, or a bank with a place for each."""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from hardpair import distributed


class Queue(nn.Module):
    """The latest ``size`` rows, first in, first out; random directions until it has filled."""

    keys: Tensor
    place: Tensor

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.register_buffer("keys", normalize(torch.randn(size, width), dim=1))  # (K, D)
        self.register_buffer("place", torch.zeros((), dtype=torch.long))  # where the next row goes

    @torch.no_grad()
    def push(self, rows: Tensor) -> None:
        """Put rows (N, D), and those of other processes, in the place of the oldest ones."""
        rows = distributed.gather(rows)[-len(self.keys) :]
        places = (self.place + torch.arange(len(rows), device=rows.device)) % len(self.keys)
        self.keys[places] = rows
        self.place.copy_((self.place + len(rows)) % len(self.keys))


class Bank(nn.Module):
    """One unit vector an image of the training set, each a moving average of that image's outputs."""

    vectors: Tensor

    def __init__(self, images: int, width: int) -> None:
        super().__init__()
        self.register_buffer("vectors", normalize(torch.randn(images, width), dim=1))  # (images, D)

    @torch.no_grad()
    def update(self, rows: Tensor, outputs: Tensor, *, keep: float) -> None:
        """Move the vectors of these images (and other processes' ones) to their new outputs, and back to length one."""
        rows, outputs = distributed.gather(rows), distributed.gather(outputs)
        moved = torch.lerp(normalize(outputs, dim=1), self.vectors[rows], keep)
        self.vectors[rows] = normalize(moved, dim=1)
