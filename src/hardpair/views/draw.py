"""Random numbers without state: a hash of (seed, step, position in the global batch, name).

The numbers of an image depend on nothing else, so they are the same after a resume, on any number of ranks, and
whatever other images draw.
"""

import hashlib
from dataclasses import dataclass, replace

import torch
from torch import Tensor

MASK = 0xFFFFFFFF
STRIDE = 0x9E3779B9  # between the numbers of an image
FACTORS = (0x7FEB352D, 0x846CA68B)  # of the "lowbias32" integer hash


@dataclass(frozen=True)
class Draw:
    """How the views of one step are drawn: the random numbers of the images at these positions of the global batch."""

    seed: int
    step: int
    positions: Tensor  # int64 (N,), on the device where the numbers are wanted
    scopes: tuple[str, ...] = ("",)
    rows: Tensor | None = None  # int64 (N,), which images of the set these are, for methods that remember each image
    size: int = 0  # side of the views in pixels; 0 is that of the images

    def within(self, *scopes: str) -> "Draw":
        """Independent numbers for each scope, one after the other: for two views of a batch, say, 2 N rows."""
        return replace(self, scopes=tuple(f"{outer}/{scope}" for outer in self.scopes for scope in scopes))

    def whole(self) -> "Draw":
        """The same numbers for views as large as the images."""
        return self.at(0)

    def at(self, size: int) -> "Draw":
        """The same numbers for views of another size."""
        return replace(self, size=size)

    def uniforms(self, name: str, count: int) -> Tensor:
        """``count`` numbers in [0, 1) per image, float32 (N, count); the rows of one scope follow those of another."""
        return self.several((name,), count)[0]

    def several(self, names: tuple[str, ...], count: int) -> Tensor:
        """The same for several names at once, which is faster: (names, N, count)."""
        keys = [self._key(f"{scope}/{name}") for name in names for scope in self.scopes]
        rows = len(self.scopes) * len(self.positions)
        mixed = _mix(torch.stack([self.positions ^ first for first, _ in keys]))
        own = torch.stack([words + second for words, (_, second) in zip(mixed, keys, strict=True)])
        bits = _mix(own.view(len(names), rows, 1) + torch.arange(count, device=own.device) * STRIDE)
        return (bits >> 8) * 2.0**-24  # 24 bits: every value is exact in float32 and below 1

    def shared(self, name: str, count: int) -> Tensor:
        """``count`` numbers in [0, 1) that all images of the step share, float32 (count,)."""
        return replace(self, positions=torch.zeros_like(self.positions[:1])).uniforms(name, count)[0]

    def _key(self, name: str) -> tuple[int, int]:
        words = hashlib.blake2b(f"{self.seed}/{self.step}{name}".encode(), digest_size=8).digest()
        return int.from_bytes(words[:4], "little"), int.from_bytes(words[4:], "little")


def _mix(x: Tensor) -> Tensor:
    """Scramble 32-bit words held in int64; products wrap, the mask keeps 32 bits."""
    x = x & MASK
    for shift, factor in zip((16, 15), FACTORS, strict=True):
        x = (x ^ (x >> shift)).mul_(factor).bitwise_and_(MASK)
    return x ^ (x >> 16)
