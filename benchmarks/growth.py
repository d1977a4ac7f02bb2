"""Is the cost per image the same in a large batch, and in a large set?

    python benchmarks/growth.py

Whole steps of the demo's HNPM (views of 32 px, without small ones) with batches of 64 to 4,096 images of the bundled
5,000, and with batches of 160 out of 5,000 and of 100,000 images; the loss with its mining and gradient also by itself.
All take turns of as many images in one run; the best turn of each counts. Goals: a constant cost per image, and
less than 3 % of a step for the loss up to a batch of 1,024.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from record import record
from whole_views import whole_views_recipe

from hardpair.data import Images, open_images
from hardpair.losses import hnpm_loss
from hardpair.machine import keep_freed_memory
from hardpair.recipes import find_recipe
from hardpair.train import pick_device
from hardpair.train.step import Stepper

BATCHES = (64, 256, 1024, 4096)
LARGE = 100_000
TURNS = 6


def stepper(images: Images, batch: int) -> Stepper:
    """One that is ready for a step."""
    return Stepper(whole_views_recipe(batch_size=batch), images, pick_device("cpu"))


def loss_alone(batch: int) -> Callable[[], None]:
    """The recipe's loss and its gradient."""
    settings = find_recipe("demo").settings
    names = ("alpha_pos", "alpha_neg", "threshold", "norm", "softness")
    chosen = {name: settings[name] for name in names}
    teacher, student = torch.randn(2, batch, int(settings["head_outputs"]))
    teacher.requires_grad_()

    def run() -> None:
        teacher.grad = None
        hnpm_loss(teacher, student, **chosen)["loss"].backward()

    return run


def best(works: dict[str, Callable[[], object]], images: int) -> dict[str, float]:
    """Seconds of each in its best turn; a turn is as many repeats as it takes to see so many images."""
    found = dict.fromkeys(works, float("inf"))
    for _ in range(TURNS):
        for name, work in works.items():
            repeats = images // int(name.split()[0])
            began = time.perf_counter()
            for _ in range(repeats):
                work()
            found[name] = min(found[name], (time.perf_counter() - began) / repeats)
    return found


def main() -> None:
    """Print both tables."""
    keep_freed_memory()  # as the command does
    few = open_images("sample", "train", size=32, root=Path())
    assert few.labels is not None
    rows = torch.arange(LARGE) % len(few)
    many = replace(few, block=few.pixels[rows], labels=few.labels[rows], rows=None, known=None)
    print(f"HNPM at 32 px, resnet10 of width .25, {torch.get_num_threads()} threads")
    steppers = {batch: stepper(few, batch) for batch in BATCHES}
    steps = best({f"{b} step": lambda s=s: s.take(0) for b, s in steppers.items()}, 4096)
    losses = best({f"{b} loss": loss_alone(b) for b in BATCHES}, 4096)
    for batch in BATCHES:
        step, loss = steps[f"{batch} step"], losses[f"{batch} loss"]
        print(f"  batch {batch:5,}: {step / batch * 1e3:6.2f} ms per image, the loss {loss / step:6.2%}", flush=True)
    sets = {f"160 of {len(images):,} images": stepper(images, 160) for images in (few, many)}
    by_set = best({name: lambda s=s: s.take(s.total // 2) for name, s in sets.items()}, 3200)
    for name, seconds in by_set.items():
        print(f"  batch {name}: {seconds / 160 * 1e3:6.2f} ms per image", flush=True)
    record("growth", {"steps": steps, "losses": losses, "sets": by_set})


if __name__ == "__main__":
    main()
