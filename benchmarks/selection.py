"""What are chosen labels worth, beside as many at random?

    python benchmarks/selection.py EMB …                  accuracy on test images
    python benchmarks/selection.py EMB … --on validation  on a fifth of the training images, left out of all choices
    python benchmarks/selection.py EMB … --on validation --constants   with other constants of choices.py

EMB holds vectors of images with splits and labels, such as those of `hardpair embed RUN cifar10 --out EMB`. 20, 40 and
100 of its training images are chosen, their labels revealed, and the head of `hardpair classify` fitted on them. Random
choices are drawn ten times, others by three seeds. Uncertain ones go on from 20 and from 40 typical ones; `then random`
and `then typical` do so too. Goal: five points over random at 20 and 40 labels.

`--seconds` measures the time of a choice among 100,000 vectors of 512 numbers (goal: a minute).
"""

import argparse
import csv
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from record import record
from search import bare_embedding

import hardpair as hp
from hardpair.embeddings import choices
from hardpair.embeddings.embedding import Embedding, open_embedding
from hardpair.embeddings.fit_head import fit_head
from hardpair.embeddings.select import Way

COUNTS, SEEDS, DRAWS = (20, 40, 100), 3, 10
FIRST = {40: 20, 100: 40}  # labels that uncertain ones begin with
CONSTANTS = {"SHARE": (0.25, 0.5, 1.0, 2.0), "WIDE": (1, 10, 50)}
Choose = Callable[[Embedding, int, int], list[int]]  # of an embedding, so many, by a seed


def split(embedding: Embedding, on: str) -> tuple[Embedding, np.ndarray]:
    """What may be chosen from, as the training split, and the rows that are scored."""
    splits = np.array(embedding.splits)
    if on == "test":
        return embedding, np.flatnonzero(splits != "train")
    train = np.flatnonzero(splits == "train")
    held = np.random.default_rng(0).permutation(train)[: len(train) // 5]
    splits[held] = "held"
    return replace(embedding, splits=tuple(splits.tolist())), np.sort(held)


def accuracy(embedding: Embedding, rows: list[int], scored: np.ndarray) -> float:
    """Of a head fitted on these labels, in per cent."""
    classes, labels = np.unique(embedding.labels[rows], return_inverse=True)
    names, encoder = [embedding.classes[k] for k in classes], embedding.manifest["encoder"]
    head = fit_head(np.asarray(embedding.vectors[rows], np.float32), labels, names, encoder=encoder).head
    guessed = classes[head.logits(embedding.vectors[scored]).argmax(1)]
    return 100 * float((guessed == embedding.labels[scored]).mean())


def at_random(embedding: Embedding, count: int, seed: int) -> list[int]:
    """Drawn from the training images."""
    train = np.flatnonzero(np.array(embedding.splits) == "train")
    return np.random.default_rng(seed).choice(train, count, replace=False).tolist()


def by(way: Way) -> Choose:
    """Chosen at once, without labels."""
    return lambda embedding, count, seed: hp.select(embedding, count=count, by=way, seed=seed).rows


def then(way: str) -> Choose:
    """Typical ones first, labelled; then others."""

    def choose(embedding: Embedding, count: int, seed: int) -> list[int]:
        first = hp.select(embedding, count=FIRST[count], by="typical", seed=seed).rows
        more = count - len(first)
        if way == "random":
            return first + [row for row in at_random(embedding, count, seed) if row not in first][:more]
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder) / "labels.csv"
            with table.open("w", newline="") as file:
                lines = [(embedding.files[row], embedding.label(row)) for row in first]
                csv.writer(file).writerows([("filename", "label"), *lines])
            return first + hp.select(embedding, count=more, by=way, labels=table, seed=seed).rows

    return choose


WAYS: dict[str, Choose] = {
    "random": at_random,
    "typical": by("typical"),
    "coverage": by("coverage"),
    **{f"typical, then {way}": then(way) for way in ("random", "typical", "coverage", "uncertain")},
}


def measure(embedding: Embedding, scored: np.ndarray, name: str, choose: Choose) -> dict[str, list[float]]:
    """Accuracies by number of labels; printed too."""
    found = {}
    for count in COUNTS if "then" not in name else FIRST:
        seeds = range(DRAWS if name == "random" else SEEDS)
        found[str(count)] = [accuracy(embedding, choose(embedding, count, seed), scored) for seed in seeds]
        values = np.array(found[str(count)])
        print(f"  {name:24} {count:4} labels: {values.mean():5.1f} ± {values.std(ddof=1):.1f}", flush=True)
    return found


def constants(embedding: Embedding, scored: np.ndarray) -> dict[str, dict[str, list[float]]]:
    """Coverage and uncertainty with other constants."""
    found = {}
    for constant, way in (("SHARE", "coverage"), ("WIDE", "typical, then uncertain")):
        usual = getattr(choices, constant)
        for value in CONSTANTS[constant]:
            setattr(choices, constant, value)
            print(f"{constant} = {value}")
            found[f"{constant} {value}"] = measure(embedding, scored, way, WAYS[way])
        setattr(choices, constant, usual)
    return found


def seconds(count: int = 100_000, width: int = 512) -> dict[str, float]:
    """Of a choice of 100, without opening the embedding."""
    random = np.random.default_rng(0)
    centres = random.standard_normal((300, width), dtype=np.float32)
    vectors = centres[random.integers(0, 300, count)] + random.standard_normal((count, width), dtype=np.float32)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        made = bare_embedding(Path(folder), vectors)
        names = tuple(map(str, range(count)))
        made = replace(made, files=names, splits=("",) * count, sha256=names)
        for way in ("typical", "coverage"):
            began = time.perf_counter()
            hp.select(made, count=100, by=way)
            found[way] = time.perf_counter() - began
    print(f"{count:,} x {width}: " + ", ".join(f"{way} {value:.1f} s" for way, value in found.items()))
    return found


def main() -> None:
    """Measure all ways on each embedding."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("embeddings", type=Path, nargs="*")
    parser.add_argument("--on", choices=("test", "validation"), default="test")
    parser.add_argument("--constants", action="store_true")
    parser.add_argument("--seconds", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    found: dict[str, object] = {}
    for folder in options.embeddings:
        embedding, scored = split(open_embedding(folder), options.on)
        name = f"{embedding.manifest['images']['source']}, {options.on} images"
        print(name)
        if options.constants:
            found[name] = constants(embedding, scored)
        else:
            found[name] = {way: measure(embedding, scored, way, choose) for way, choose in WAYS.items()}
    if options.seconds:
        record("select_seconds", seconds())
    if found and options.on == "test":
        record("select", found)


if __name__ == "__main__":
    main()
