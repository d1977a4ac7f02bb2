"""Are our SimCLR, MoCo v2, BYOL and SimSiam as good as lightly's?

    python benchmarks/peer_learning.py --lightly-optimiser both      in full; hours on two CPU cores
    python benchmarks/peer_learning.py --data sample --images 320 --epochs 1 --seeds 1 --out runs/peer-short

Both sides start from the same encoder (resnet10 of width .25) and see the same images, class-balanced, for as many
epochs in batches of 160. Ours is the recipe demo/<method>; lightly's is set up as in its own benchmark on CIFAR-10
(peer/lightly_side.py), with that benchmark's SGD, with the Adam of our recipes, or with both, and then we are
compared with the better. Both encoders, and an untrained one, are evaluated by the same code: knn and linear, fitted on
those images and tested on the whole test set. No setting of ours is chosen by what comes out here.

Each finished run is a line in <out>/scores.jsonl. Stop it when you like: the next start goes on with what is missing.
Needs the extra: pip install "hardpair[bench]".
"""

import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import torch
import tyro
from peer.scores import Line, matching, read_lines, table
from peer.training import CPU, evaluate, train_lightly, train_ours

from hardpair.data import Images, open_images
from hardpair.evaluate.context import random_like
from hardpair.files import append_json, commit
from hardpair.models import Encoder, build_encoder
from hardpair.recipes import Recipe, find_recipe

Method = Literal["simclr", "moco", "byol", "simsiam"]


@dataclass(frozen=True)
class Options:
    """Our methods beside lightly's.

    Args:
        methods: which to compare.
        seeds: how many, from 0.
        epochs: passes over the images.
        images: training images, the same number of each class, the same for all seeds.
        lightly_optimiser: sgd is that of lightly's benchmark, adam that of our recipes.
        data: cifar10 or sample, the bundled photos.
        data_root: where CIFAR-10 lies.
        out: folder of the scores.
    """

    methods: tuple[Method, ...] = ("simclr", "moco", "byol", "simsiam")
    seeds: int = 3
    epochs: int = 10
    images: int = 10_000
    lightly_optimiser: Literal["sgd", "adam", "both"] = "sgd"
    data: str = "cifar10"
    data_root: Path = Path("data")
    out: Path = Path("runs/peer")

    def sides(self) -> tuple[str, ...]:
        """Who trains."""
        choices = ("sgd", "adam") if self.lightly_optimiser == "both" else (self.lightly_optimiser,)
        return "ours", *(f"lightly-{choice}" for choice in choices)

    def recipe(self, method: str, seed: int) -> Recipe:
        """Our recipe, for these images and epochs."""
        return replace(find_recipe(f"demo/{method}"), data=self.data, epochs=self.epochs, seed=seed)


def open_both(options: Options) -> tuple[Images, Images]:
    """The training images, so many of each class, and all test images."""
    data = f"{options.data}:{options.images}"
    train, test = (open_images(data, split, size=32, root=options.data_root) for split in ("train", "test"))
    return train, test


def jobs(options: Options) -> Iterator[Line]:
    """What identifies each run; seed by seed, so that a comparison stopped early is still a fair one."""
    same = {"data": options.data, "images": options.images, "epochs": options.epochs}
    for seed in range(options.seeds):
        yield {"method": "none", "side": "random", "seed": seed, "data": options.data, "images": options.images}
        for method in options.methods:
            for side in options.sides():
                by = options.recipe(method, seed).to_json()["hash"] if side == "ours" else version("lightly")
                yield {"method": method, "side": side, "seed": seed, **same, "by": by}


def run(job: Line, options: Options, train: Images, test: Images) -> Line:
    """Train and evaluate; the job with its scores."""
    encoder, seconds = train_side(job, options, train)
    return {
        **job,
        **evaluate(encoder, train, test),
        "seconds_per_epoch": seconds / options.epochs,
        "threads": torch.get_num_threads(),
        "versions": {"torch": str(torch.__version__), "python": platform.python_version()},
        "commit": commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def train_side(job: Line, options: Options, train: Images) -> tuple[Encoder, float]:
    """The encoder of a job, and how long it took."""
    if job["side"] == "random":
        recipe = options.recipe("simclr", job["seed"])
        encoder = build_encoder(recipe.encoder, width=recipe.width, small_images=recipe.small_images)
        return random_like(encoder, seed=job["seed"], device=CPU), 0.0
    recipe = options.recipe(job["method"], job["seed"])
    if job["side"] == "ours":
        return train_ours(recipe, train)
    return train_lightly(recipe, train, job["side"].removeprefix("lightly-"))


def main() -> int:
    """Run what is missing, then print the table."""
    options = tyro.cli(Options, description=__doc__)
    file = options.out / "scores.jsonl"
    options.out.mkdir(parents=True, exist_ok=True)
    train, test = open_both(options)
    print(f"{len(train):,} training and {len(test):,} test images of {options.data}, {options.epochs} epochs")
    wanted = list(jobs(options))
    for number, job in enumerate(wanted, 1):
        if matching(read_lines(file), job):
            continue
        print(f"[{number}/{len(wanted)}] {job['method']} {job['side']}, seed {job['seed']}", flush=True)
        line = run(job, options, train, test)
        append_json(file, line)
        print(f"  knn {line['knn']:.2f}  linear {line['linear']:.2f}  {line['seconds_per_epoch']:.1f} s per epoch")
    done = read_lines(file)
    print(table([matching(done, job)[-1] for job in wanted], options.methods))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("stopped; start it again to go on")
