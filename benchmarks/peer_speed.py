"""How much faster than lightly do we train?

    python benchmarks/peer_speed.py                  images per second; about a quarter of an hour
    python benchmarks/peer_speed.py --learning 3     only the seconds to an accuracy, of three seeds; about forty
    python benchmarks/peer_speed.py --data sample    without CIFAR-10

Same encoder (resnet10 of width .25), images, batch (160) and size of views (32 px) for all. lightly's side is its own
transforms on PIL images, DataLoader with two workers, heads and losses (peer/lightly_side.py), with tensors laid out
as its own pipelines have them, and once more with channels last, as ours. HNPM is there once more, too, with the views
of its recipe: 24 px, and the teacher's small one. Each is a process of its own; they take turns of some seconds in one
run, after a few steps that do not count, since lightly's workers have some batches ready by then. Two ratios: that of
the best turns, and the median of the ratios of each round, which slow minutes of the machine do not change. Goals: HNPM
4.5 times lightly's BYOL and 3.5 times its SimCLR; our BYOL and SimCLR twice lightly's.

Learning: for each seed, lightly's SimCLR learns from 10,000 images for 10 epochs, with our Adam, which suits it better
than its own optimiser (docs/log.md). Our default recipe, whose views and batches are smaller, then trains for 1, 2, 3,
... epochs until its kNN is as good; training alone is timed. Evaluated on 10,000 other images of the training set.
Goal: a third of lightly's seconds.

Needs the extra: pip install "hardpair[bench]".
"""

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import median

import torch
import tyro
from peer.training import CPU, Lightly, evaluate, train_lightly, train_ours
from record import record
from turns import Side, take_turns

from hardpair.data import Images, hold_out, open_images
from hardpair.machine import keep_freed_memory
from hardpair.recipes import Recipe, find_recipe
from hardpair.train.step import Stepper

PAIRS = (("hnpm", "byol", 4.5), ("hnpm", "simclr", 3.5), ("byol", "byol", 2.0), ("simclr", "simclr", 2.0))
OURS = ("hnpm", "hnpm, views of its recipe", "byol", "simclr")
THEIRS = ("byol", "simclr", "byol, channels last", "simclr, channels last")
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
        learning: measure the seconds to an accuracy instead, with this many seeds.
        only: be the one of this name, and take a turn for every line that is read.
    """

    data: str = "cifar10"
    data_root: Path = Path("data")
    images: int = 5_000
    seconds: float = 6.0
    turns: int = 10
    learning: int = 0
    only: str = ""


def our_recipe(method: str) -> Recipe:
    """The demo's, with batches and views as lightly has them."""
    recipe = find_recipe(f"demo/{method}")
    settings = {**recipe.settings, "small_views": 0} if method == "hnpm" else recipe.settings
    return replace(recipe, batch_size=160, view_size=1.0, epochs=1000, settings=settings)


def our_steps(name: str, images: Images) -> Iterator[None]:
    """Steps of ours without end."""
    keep_freed_memory()  # as the command does
    method, _, other = name.partition(", ")
    recipe = replace(find_recipe(f"demo/{method}"), batch_size=160, epochs=1000) if other else our_recipe(method)
    stepper = Stepper(recipe, images, CPU)
    for step in range(stepper.total):
        stepper.take(step)
        yield


def lightly_steps(name: str, images: Images) -> Iterator[None]:
    """Steps of lightly's without end."""
    method, _, other = name.partition(", ")
    recipe = our_recipe(method)
    lightly = Lightly(recipe, images, "adam", channels_last=bool(other))
    for _ in range(recipe.epochs):
        for _loss in lightly.epoch():
            yield


def be_one(options: Options, images: Images) -> None:
    """One side: a turn whenever asked, and its images per second."""
    side, _, name = options.only.partition(" ")
    steps = (our_steps if side == "hardpair" else lightly_steps)(name, images)

    def turn() -> str:
        for _ in range(READY):
            next(steps)
        began, count = time.perf_counter(), 0
        while time.perf_counter() - began < options.seconds:
            next(steps)
            count += 160
        return str(count / (time.perf_counter() - began))

    take_turns(turn)


def measure(options: Options) -> dict[str, list[float]]:
    """Images per second of each, turn by turn."""
    names = [f"hardpair {name}" for name in OURS] + [f"lightly {name}" for name in THEIRS]
    told = ["--data", options.data, "--data-root", str(options.data_root), "--images", str(options.images)]
    told += ["--seconds", str(options.seconds)]
    sides = {name: Side([sys.executable, __file__, *told, "--only", name]) for name in names}
    rates: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(options.turns):
        for name, side in sides.items():
            rates[name].append(float(side.turn()))
    for side in sides.values():
        side.end()
    return rates


def of_method(method: str, names: tuple[str, ...]) -> list[str]:
    """All ways in which a method is measured."""
    return [name for name in names if name.partition(", ")[0] == method]


def learning_sets(options: Options) -> tuple[Images, Images]:
    """10,000 images of CIFAR-10's training set to learn from, and as many others to evaluate on."""
    whole = open_images("cifar10", "train", size=32, root=options.data_root)
    assert whole.labels is not None
    rest, seen = hold_out(whole.labels, share=0.2, seed=0)
    others = whole.select(rest)
    assert others.labels is not None
    _, held_out = hold_out(others.labels, share=0.25, seed=1)
    return whole.select(seen), others.select(held_out)


def seconds_to_accuracy(train: Images, test: Images, seed: int) -> dict[str, float]:
    """Of lightly's SimCLR in ten epochs, and of ours in as few as it takes."""
    encoder, seconds = train_lightly(replace(our_recipe("simclr"), epochs=10, seed=seed), train, "adam")
    found = {"seed": seed, "lightly_seconds": seconds, "lightly_knn": evaluate(encoder, train, test)["knn"]}
    for epochs in range(1, 11):
        encoder, seconds = train_ours(replace(find_recipe("demo"), epochs=epochs, seed=seed), train)
        found |= {"epochs": epochs, "seconds": seconds, "knn": evaluate(encoder, train, test)["knn"]}
        print(f"  {epochs} epochs: knn {found['knn']:.1f} in {seconds:.0f} s", flush=True)
        if found["knn"] >= found["lightly_knn"]:
            break
    return found


def main() -> None:
    """Print tables."""
    options = tyro.cli(Options, description=__doc__)
    if options.only:
        images = open_images(f"{options.data}:{options.images}", "train", size=32, root=options.data_root)
        be_one(options, images)
        return
    if options.learning:
        learn(options)
    else:
        train(options)


def learn(options: Options) -> None:
    """Seconds to an accuracy."""
    print("seconds to the kNN accuracy of lightly's SimCLR after ten epochs")
    sets = learning_sets(options)
    seeds = []
    for seed in range(options.learning):
        seeds.append(one := seconds_to_accuracy(*sets, seed))
        share = one["seconds"] / one["lightly_seconds"]
        print(f"  seed {seed}, lightly: {one['lightly_knn']:.1f} % in {one['lightly_seconds']:.0f} s")
        print(f"  hardpair: {one['knn']:.1f} % in {one['seconds']:.0f} s, {share:.3f} of it (goal .33)", flush=True)
        record("peer_learning_time", {"seeds": seeds})


def train(options: Options) -> None:
    """Images per second."""
    rates = measure(options)
    print(f"training, images per second, {torch.get_num_threads()} threads")
    for name, turns in rates.items():
        print(f"  {name:34} {max(turns):6.0f}   turns: {', '.join(f'{turn:.0f}' for turn in turns)}")
    for ours, theirs, goal in PAIRS:
        for name, other in product(of_method(ours, OURS), of_method(theirs, THEIRS)):
            own, peer = rates[f"hardpair {name}"], rates[f"lightly {other}"]
            best, rounds = max(own) / max(peer), median(a / b for a, b in zip(own, peer, strict=True))
            figures = f"best turns {best:.2f}, median of rounds {rounds:.2f} (goal {goal})"
            print(f"  hardpair {name} ÷ lightly {other}: {figures}", flush=True)
    record("peer_speed", {"images_a_second": rates})


if __name__ == "__main__":
    main()
