"""Random numbers without state: a hash of (seed, step, position in the global batch, name).

An image's numbers depend on nothing else, so they survive a resume and do not change with the number of
processes or with what other images draw.
"""

import hashlib
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hardpair.views.loops import compiled_loops_on

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
        """``count`` numbers in [0, 1) an image, float32 (N, count)."""
        return torch.cat([self._uniforms(f"{scope}/{name}", count) for scope in self.scopes])

    def shared(self, name: str, count: int) -> Tensor:
        """``count`` numbers in [0, 1) that all images of the step share, float32 (count,)."""
        return replace(self, positions=torch.zeros_like(self.positions[:1])).uniforms(name, count)[0]

    def _uniforms(self, name: str, count: int) -> Tensor:
        words = hashlib.blake2b(f"{self.seed}/{self.step}{name}".encode(), digest_size=8).digest()
        first, second = int.from_bytes(words[:4], "little"), int.from_bytes(words[4:], "little")
        if compiled_loops_on(self.positions.device):
            from hardpair.views.hashing import uniforms  # here, since numba takes a second to import

            return torch.from_numpy(uniforms(self.positions.numpy(), count, first, second))
        columns = torch.arange(count, device=self.positions.device) * STRIDE
        bits = _mix(_mix(self.positions ^ first)[:, None] + (columns + second))
        return (bits >> 8) * 2.0**-24  # 24 bits: every value is exact in float32 and below 1


def _mix(x: Tensor) -> Tensor:
    """Scramble 32-bit words held in int64; products wrap, the mask keeps 32 bits."""
    x = x & MASK
    x = ((x ^ (x >> 16)) * FACTORS[0]) & MASK
    x = ((x ^ (x >> 15)) * FACTORS[1]) & MASK
    return x ^ (x >> 16)
