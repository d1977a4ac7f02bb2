"""A run that is killed over and over; imported by a fork server, so that each of its lives begins at once."""

import sys
from pathlib import Path

import torch

from hardpair.recipes import Recipe
from hardpair.train import pretrain

EVERY = 3  # steps between checkpoints


def recipe(epochs: int) -> Recipe:
    """Twenty steps an epoch."""
    settings = {"head_hidden": 32, "head_outputs": 16, "alpha_pos": 1.0, "alpha_neg": 1.0, "norm": "l2"}
    fields = {"image_size": 8, "encoder": "resnet10", "width": 1 / 16, "batch_size": 250}
    return Recipe(name="lives", epochs=epochs, settings=settings, **fields)


def live(run: Path, epochs: int, until: int | None = None, shard: bool = False) -> None:
    """Train from wherever the last life ended."""
    torch.set_num_threads(1)
    pretrain(recipe(epochs), run, resume=True, checkpoint_every=EVERY, until=until, shard=shard)


if __name__ == "__main__":
    live(Path(sys.argv[1]), int(sys.argv[2]))
