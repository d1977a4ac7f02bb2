"""What goes wrong on the last of several processes; imported by a fork server."""

import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
from lives import live
from safetensors.torch import save_file
from shared_steps import photos, recipe_of
from torch import Tensor

from hardpair import distributed
from hardpair.data import Images, open_images
from hardpair.errors import UserError
from hardpair.methods.hnpm import HNPM
from hardpair.train import pretrain
from hardpair.train.parallel import process_group
from hardpair.train.step import Stepper


def main(folder: Path) -> None:
    """Three steps, with a NaN in the second; every process writes what it has."""
    torch.set_num_threads(1)
    device, forward = torch.device("cpu"), HNPM.forward

    def spoilt(self: HNPM, views: list[Tensor]) -> dict[str, Tensor]:
        if distributed.rank() == distributed.world_size() - 1 and step == 1:
            views[0][0, 0, 0, 0] = float("nan")
        return forward(self, views)

    HNPM.forward = spoilt
    with process_group(device):
        stepper = Stepper(recipe_of("hnpm"), photos(), device)
        stepper.method.train()
        sound = [0, 0, 0]
        for step in range(3):
            sound[step] = int(stepper.take(step).sound)
        state = {name: value.contiguous() for name, value in stepper.method.state_dict().items()}
        save_file({**state, "sound": torch.tensor(sound)}, folder / f"{distributed.rank()}.safetensors")


def folder_each(folder: Path) -> None:
    """Runs of which each process sees something else; it writes what it is told."""
    torch.set_num_threads(1)
    told = []
    with process_group(torch.device("cpu")):
        for case in ("checkpoint", "end", "images"):
            if case == "images" and distributed.rank() > 0:
                sys.modules[pretrain.__module__].open_images = fewer_images
            try:
                live(folder / case / str(distributed.rank()), 1)
            except UserError as error:
                told.append(str(error))
        (folder / f"{distributed.rank()}.txt").write_text("\n".join(told))


def take_turns(notes: Path) -> None:
    """The last of three processes is the first of another machine, and slow; each notes when it is done."""
    os.environ["LOCAL_RANK"] = "1" if os.environ["RANK"] == "1" else "0"
    with process_group(torch.device("cpu")), distributed.main_first():
        time.sleep(0.5 if distributed.rank() == 2 else 0)
        with notes.open("a") as file:
            file.write(str(distributed.rank()))


def fewer_images(*arguments: Any, **options: Any) -> Images:
    """All but the last."""
    images = open_images(*arguments, **options)
    return images.select(torch.arange(len(images) - 1))
