"""A run that is killed over and over; imported by a fork server, so that each of its lives begins at once."""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

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


def told(run: Path, method: str) -> None:
    """Write down what the callback of this rank is told, with the shape of each picture."""
    torch.set_num_threads(1)

    def note(event: str, values: Mapping[str, Any]) -> None:
        line = {"event": event, **values}
        with Path(f"{run}-{os.environ['RANK']}").open("a") as file:
            file.write(json.dumps(line, default=lambda picture: picture.shape) + "\n")

    settings = {} if method == "moco" else recipe(1).settings
    one = replace(recipe(1), method=method, settings=settings)
    pretrain(one, run, callback=note, tensorboard=True, device="cpu")


if __name__ == "__main__":
    live(Path(sys.argv[1]), int(sys.argv[2]))
