"""The order in which images are visited: a function of seed and epoch, and of nothing else."""

import hashlib

import torch
from torch import Tensor


def generator_for(*key: object) -> torch.Generator:
    """A generator whose stream depends on the key alone.

    Hashing keeps neighbouring keys apart: seeds 0 and 1 share no prefix, and (1, 23) is not (12, 3).
    """
    digest = hashlib.sha256(repr(key).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


def epoch_order(count: int, *, seed: int, epoch: int) -> Tensor:
    """A permutation of `count` rows, int64; a run that resumes at an epoch sees the order it would have seen."""
    return torch.randperm(count, generator=generator_for("epoch", int(seed), int(epoch)))
