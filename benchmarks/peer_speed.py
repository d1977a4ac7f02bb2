"""How much faster than lightly do we train?

    python benchmarks/peer_speed.py                  images a second; about five minutes
    python benchmarks/peer_speed.py --learning       also the seconds to an accuracy; about ten more
    python benchmarks/peer_speed.py --data sample    without CIFAR-10

Same encoder (resnet10 of width .25), images, batch (160) and size of views (32 px) for all. lightly's side is its own
transforms on PIL images, DataLoader with two workers, heads and losses (peer/lightly_side.py). They take turns of some
seconds in one run, after a few steps that do not count, since lightly's workers have some batches ready by then; the
best turn of each counts. Goals: HNPM 4.5 times lightly's BYOL and 3.5 times its SimCLR; our BYOL and SimCLR twice
lightly's.

Learning: lightly's SimCLR learns from 10,000 images for 10 epochs, with our Adam, which suits it better than its own
optimiser (docs/log.md). Our default recipe, whose views and batches are smaller, then trains for 1, 2, 3, ... epochs
until its kNN is as good; training alone is timed. Judged on 10,000 other images of the training set. Goal: a third of
lightly's seconds.

Needs the extra: pip install "hardpair[bench]".
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import tyro
from peer.training import CPU, Lightly, judge, train_lightly, train_ours
from record import record

from hardpair.data import Images, hold_out, open_images
from hardpair.recipes import Recipe, find_recipe
from hardpair.train.step import Stepper

PAIRS = (("hnpm", "byol", 4.5), ("hnpm", "simclr", 3.5), ("byol", "byol", 2.0), ("simclr", "simclr", 2.0))
READY = 6  # lightly's workers have four batches ready when a turn begins


@dataclass(frozen=True)
class Options:
    """Our speed beside lightly's.

    Args:
        data: cifar10 or sample, the bundled photos.
        data_root: where CIFAR-10 lies.
        images: how many, the same number of each class.
        seconds: of a turn.
        turns: how many for each.
        learning: measure the seconds to an accuracy, too.
    """

    data: str = "cifar10"
    data_root: Path = Path("data")
    images: int = 5_000
    seconds: float = 12.0
    turns: int = 4
    learning: bool = False


def our_recipe(method: str) -> Recipe:
    """The demo's, with batches and views as lightly has them."""
    recipe = find_recipe(f"demo/{method}")
    settings = {**recipe.settings, "small_views": 0} if method == "hnpm" else recipe.settings
    return replace(recipe, batch_size=160, view_size=1.0, epochs=1000, settings=settings)


def our_steps(recipe: Recipe, images: Images) -> Iterator[None]:
    """Steps of ours without end."""
    stepper = Stepper(recipe, images, CPU)
    for step in range(stepper.total):
        stepper.take(step)
        yield


def lightly_steps(recipe: Recipe, images: Images) -> Iterator[None]:
    """Steps of lightly's without end."""
    lightly = Lightly(recipe, images, "adam")
    for _ in range(recipe.epochs):
        for _loss in lightly.epoch():
            yield


def measure(options: Options, images: Images) -> dict[str, float]:
    """Images a second of each, its best turn."""
    runs: dict[str, Iterator[None]] = {}
    for method in ("hnpm", "byol", "simclr"):
        runs[f"hardpair {method}"] = our_steps(our_recipe(method), images)
    for method in ("byol", "simclr"):
        runs[f"lightly {method}"] = lightly_steps(our_recipe(method), images)
    best = dict.fromkeys(runs, 0.0)
    for _ in range(options.turns):
        for name, steps in runs.items():
            for _ in range(READY):
                next(steps)
            began, count = time.perf_counter(), 0
            while time.perf_counter() - began < options.seconds:
                next(steps)
                count += 160
            best[name] = max(best[name], count / (time.perf_counter() - began))
    return best


def seconds_to_accuracy(options: Options) -> dict[str, float]:
    """Of lightly's SimCLR in ten epochs, and of ours in as few as it takes."""
    whole = open_images("cifar10", "train", size=32, root=options.data_root)
    assert whole.labels is not None
    rest, seen = hold_out(whole.labels, share=0.2, seed=0)
    others = whole.select(rest)
    assert others.labels is not None
    _, judged = hold_out(others.labels, share=0.25, seed=1)
    train, test = whole.select(seen), others.select(judged)
    encoder, seconds = train_lightly(replace(our_recipe("simclr"), epochs=10), train, "adam")
    found = {"lightly_seconds": seconds, "lightly_knn": judge(encoder, train, test)["knn"]}
    for epochs in range(1, 11):
        encoder, seconds = train_ours(replace(find_recipe("demo"), epochs=epochs), train)
        found |= {"epochs": epochs, "seconds": seconds, "knn": judge(encoder, train, test)["knn"]}
        print(f"  {epochs} epochs: knn {found['knn']:.1f} in {seconds:.0f} s", flush=True)
        if found["knn"] >= found["lightly_knn"]:
            break
    return found


def main() -> None:
    """Print tables."""
    options = tyro.cli(Options, description=__doc__)
    images = open_images(f"{options.data}:{options.images}", "train", size=32, root=options.data_root)
    rates = measure(options, images)
    print(f"training, images a second, {torch.get_num_threads()} threads")
    for name, rate in rates.items():
        print(f"  {name:16} {rate:6.0f}")
    for ours, theirs, goal in PAIRS:
        ratio = rates[f"hardpair {ours}"] / rates[f"lightly {theirs}"]
        print(f"  hardpair {ours} ÷ lightly {theirs}: {ratio:.2f} (goal {goal})", flush=True)
    record("peer_speed", {"images_a_second": rates})
    if options.learning:
        print("seconds to the kNN accuracy of lightly's SimCLR after ten epochs")
        learning = seconds_to_accuracy(options)
        share = learning["seconds"] / learning["lightly_seconds"]
        print(f"  lightly {learning['lightly_knn']:.1f} % in {learning['lightly_seconds']:.0f} s")
        print(f"  hardpair {learning['knn']:.1f} % in {learning['seconds']:.0f} s: {share:.2f} of it (goal .33)")
        record("peer_learning_time", learning)


if __name__ == "__main__":
    main()
