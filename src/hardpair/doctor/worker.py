"""What each of two processes does, started by torchrun: a step alone, a meeting, the same step together."""

import json
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hardpair import distributed
from hardpair.data import open_images
from hardpair.doctor.tiny import TINY
from hardpair.files import write_atomically
from hardpair.train.parallel import process_group
from hardpair.train.step import Stepper

CPU = torch.device("cpu")
TOLD = "told.json"


def main(folder: Path, seconds: int) -> None:
    """Tell after the meeting, and again after the step, so that it is known how far we came."""
    signal.alarm(seconds)  # no process may linger, should the one that started it be gone
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    alone = first_step()
    with process_group(CPU):
        facts = {"met": meet()}
        tell(folder, facts)
        tell(folder, facts | distances(alone, first_step()))


def tell(folder: Path, facts: dict[str, Any]) -> None:
    """The first speaks for both."""
    if distributed.is_main():
        write_atomically(folder / TOLD, json.dumps(facts).encode())


def meet() -> bool:
    """Whether gathering and summing give what they should."""
    own = torch.tensor([float(distributed.rank())])
    return distributed.gather(own).tolist() == [0.0, 1.0] and distributed.all_reduce(own + 1).tolist() == [3.0]


def first_step() -> dict[str, Tensor]:
    """Loss and gradients, over all processes that have met."""
    images = open_images(TINY.data, "train", size=TINY.image_size, root=Path())
    stepper = Stepper(TINY, images, CPU)
    stepper.method.train()
    rows = stepper.rows(0)
    loss = stepper.forward(stepper.method.views(images.batch(rows), stepper.draw(0, rows)))["loss"]
    loss.backward()
    gradients = [p.grad.flatten() for p in stepper.trained if p.grad is not None]
    return {"loss": distributed.mean(loss), "gradients": torch.cat(gradients)}


def distances(alone: dict[str, Tensor], together: dict[str, Tensor]) -> dict[str, float]:
    """The largest difference of each, as a share of the largest value."""
    return {name: float((together[name] - value).abs().max() / value.abs().max()) for name, value in alone.items()}


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
