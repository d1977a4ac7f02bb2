"""A run that is killed over and over; imported by a fork server, so that each of its lives begins at once."""

import sys
from dataclasses import replace
from pathlib import Path

import torch

from hardpair.doctor.training_checks import TINY
from hardpair.recipes import Recipe
from hardpair.train import pretrain

EVERY = 3  # steps between checkpoints


def recipe(epochs: int) -> Recipe:
    """Twenty steps an epoch."""
    return replace(TINY, name="lives", epochs=epochs)


def live(run: Path, epochs: int, until: int | None = None, shard: bool = False) -> None:
    """Train from wherever the last life ended."""
    torch.set_num_threads(1)
    pretrain(recipe(epochs), run, resume=True, checkpoint_every=EVERY, until=until, shard=shard)


if __name__ == "__main__":
    live(Path(sys.argv[1]), int(sys.argv[2]))
