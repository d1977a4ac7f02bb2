"""Which settings of hard negative pair mining work at small scale? One line of results a variant and seed.

    python benchmarks/study/run.py base --seeds 3
    python benchmarks/study/run.py map head mining
    python benchmarks/study/run.py map --table                   the results so far, as a table

Each variant (groups.py) is trained on 10,000 class-balanced training images of CIFAR-10 without their labels, then
judged by knn and linear, fitted on those images and tested on 10,000 *other training images*: the test set has no
part in any choice. The lines go to results/study.jsonl, one for each variant's name and seed. Stop it when you like;
the next start goes on with what is missing. Two may share the work: --part 0/2 and --part 1/2.
"""

import json
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
import tyro
from groups import GROUPS
from variants import Variant

from hardpair.data import Images, hold_out, open_images
from hardpair.evaluate import knn, linear
from hardpair.evaluate.features import outputs
from hardpair.files import append_json, commit
from hardpair.models import load_encoder
from hardpair.recipes import Recipe
from hardpair.train.cost import forward_equivalents
from hardpair.train.trainer import Trainer

CPU = torch.device("cpu")
SHOWN = ("linear", "knn", "mined", "rank", "positive", "false_negatives")


@dataclass(frozen=True)
class Options:
    """The study of HNPM's settings.

    Args:
        groups: which groups of variants, of those in groups.py.
        seeds: how many, from 0.
        part: which part of how many, for two processes that share the work.
        table: print the results so far instead of training.
        data_root: where CIFAR-10 lies.
        out: file of the results.
    """

    groups: tyro.conf.Positional[tuple[str, ...]]
    seeds: int = 1
    part: str = "0/1"
    table: bool = False
    data_root: Path = Path("data")
    out: Path = Path("results/study.jsonl")


def split(data_root: Path, data: str) -> tuple[Images, Images]:
    """The images to learn from, and as many others of the training set to judge on."""
    train = open_images(data, "train", size=32, root=data_root)
    whole = open_images("cifar10", "train", size=32, root=data_root)
    assert whole.labels is not None
    rest, _ = hold_out(whole.labels, share=len(train) / len(whole), seed=0)  # the draw that made `train`
    others = whole.select(rest)
    assert others.labels is not None
    _, judged = hold_out(others.labels, share=len(train) / len(others), seed=1)
    return train, others.select(judged)


def run(recipe: Recipe, train: Images, judged: Images) -> dict[str, Any]:
    """Train, judge, and what the log and the mined pairs say about it."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(recipe, Path(folder), train, CPU, checkpoint_every=sys.maxsize)
        began = time.perf_counter()
        if trainer.run().status == "stopped":
            raise KeyboardInterrupt
        seconds = time.perf_counter() - began
        encoder = load_encoder(folder)
        steps = [json.loads(line) for line in (Path(folder) / "log.jsonl").read_text().splitlines()]
        last = [step for step in steps if step["event"] == "step"][-1]
        pairs = Path(folder) / "pairs.json"
        mined = json.loads(pairs.read_text()) if pairs.exists() else {}
    fitted, tested = ((outputs(encoder, images, CPU), images.labels) for images in (train, judged))
    return {
        "linear": linear(fitted, tested)["top1"],
        "knn": knn(fitted, tested)["top1"],
        **{name: last[name] for name in ("mined", "empty", "rank", "positive", "loss") if name in last},
        "false_negatives": mined.get("false_negatives"),
        "seconds": round(seconds, 1),
    }


def read_lines(file: Path) -> list[dict[str, Any]]:
    """All results so far."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def table(lines: list[dict[str, Any]], variants: list[Variant]) -> str:
    """Mean and deviation over seeds; the mined share and false negatives in per cent."""
    rows = [
        "| variant | seeds | forwards | " + " | ".join(SHOWN) + " |",
        "|---|---:" + "|---:" * (len(SHOWN) + 1) + "|",
    ]
    for variant in variants:
        own = [line for line in lines if line["variant"] == variant.name]
        if own:
            cells = [_cell(name, [line[name] for line in own if line.get(name) is not None]) for name in SHOWN]
            rows.append(f"| {variant.name} | {len(own)} | {own[0]['forwards']:.0f} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _cell(name: str, values: list[float]) -> str:
    if not values:
        return ""
    scale, digits = {"mined": (100, 1), "false_negatives": (100, 1), "rank": (1, 0), "positive": (1, 2)}.get(
        name, (1, 1)
    )
    values = [scale * value for value in values]
    spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 and name in ("linear", "knn") else ""
    return f"{fmean(values):.{digits}f}{spread}"


def main() -> int:
    """Run what is missing, or print the table."""
    options = tyro.cli(Options, description=__doc__)
    for group in options.groups:
        if group not in GROUPS:
            sys.exit(f"groups: there is no {group!r}; there are {', '.join(GROUPS)}")
    variants = [variant for group in options.groups for variant in GROUPS[group]]
    if options.table:
        print(table(read_lines(options.out), variants))
        return 0
    place, parts = map(int, options.part.split("/"))
    work = [(variant, seed) for seed in range(options.seeds) for variant in variants][place::parts]
    train, judged = split(options.data_root, variants[0].recipe(0).data)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for number, (variant, seed) in enumerate(work, 1):
        if any((line["variant"], line["seed"]) == (variant.name, seed) for line in read_lines(options.out)):
            continue
        recipe = variant.recipe(seed)
        print(f"[{number}/{len(work)}] {variant.name}, seed {seed}", flush=True)
        cost = forward_equivalents(recipe, train) * recipe.epochs
        result = run(recipe, train, judged)
        about = {"variant": variant.name, "seed": seed, "epochs": recipe.epochs, "forwards": cost}
        when = {"commit": commit(), "date": datetime.now(UTC).isoformat(timespec="seconds")}
        append_json(options.out, {**about, **result, "threads": torch.get_num_threads(), **when})
        print(f"  linear {result['linear']:.1f}  knn {result['knn']:.1f}  {result['seconds']:.0f} s", flush=True)
    print(table(read_lines(options.out), variants))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("stopped; start it again to go on")
