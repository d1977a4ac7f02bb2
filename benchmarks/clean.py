"""Does `hardpair clean` find planted copies and planted label errors, and how long does it take?

    python benchmarks/clean.py --cifar10 RUN --imagenette RUN --pets RUN            all of it: some 20 minutes of a core

Copies: 3,000 photos of a set, and of 600 of them a copy: re-encoded (JPEG of quality 40 to 90), resized (to .5 to 2
times the sides), cropped (80 % of the sides, anywhere) or mirrored. Pairs of originals that are found too are natural
near duplicates or false; they count against *strict* precision, and only copies do in the other. Goal: recall and
precision of .95, also without an encoder's neighbours, by fingerprints alone. Flowers-102 chose the thresholds.

Labels: 5 % of the labels changed to another class at random. AUROC of our score, of cleanlab's three scores on the same
probabilities, and of cleanlab's own way (five folds of scikit-learn's logistic regression on the same vectors). Goals:
.90, and at least cleanlab's. Pets chose the settings.

CIFAR-10: how many test images have a near duplicate among the training images (3.3 % by Barz and Denzler 2020).

Time: 100,000 × 512, made of the pictures of all sets (goal: three minutes).
"""

import dataclasses
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from cleanlab.rank import get_label_quality_scores
from PIL import Image
from record import found_before, record
from search import bare_embedding
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict

import hardpair as hp
from hardpair.data import open_images
from hardpair.data.decode import read_square
from hardpair.embeddings.clean import look
from hardpair.embeddings.duplicates import Links, Squares, groups, near_links, read_squares
from hardpair.embeddings.embedding import Embedding
from hardpair.embeddings.graph import neighbour_graph
from hardpair.embeddings.label_errors import label_errors, out_of_sample
from hardpair.embeddings.pictures import Pictures

KINDS = ("re-encoded", "resized", "cropped", "mirrored")
SCORES = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")
ORIGINALS, COPIES = 3000, 600
SOME = 12_000  # images on which labels are judged
SQUARES = {"imagenette": "imagenette-96", "pets": "pets", "flowers": "flowers-102"}


@dataclass(frozen=True)
class Options:
    """What to measure with.

    Args:
        cifar10: a run or file of weights for CIFAR-10.
        imagenette: for Imagenette.
        pets: for Pets.
        data_root: holds cifar-10-batches-bin, imagenette-96, pets and flowers-102.
        seeds: of the copies and errors.
        parts: what to do.
        threads: of the CPU.
    """

    cifar10: str
    imagenette: str
    pets: str
    data_root: Path = Path("data")
    seeds: int = 3
    parts: tuple[str, ...] = ("copies", "labels", "cifar10", "time")
    threads: int = 1


def files_of(folder: Path) -> list[Path]:
    """All pictures of a set."""
    kinds = (".jpg", ".jpeg", ".png")
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in kinds and path.name[0] != ".")


def plant(files: Sequence[Path], out: Path, seed: int) -> dict[str, tuple[str, str]]:
    """Links to some files, and copies; of each copy the name of its original, and its kind."""
    random = np.random.default_rng(seed)
    chosen = [files[row] for row in np.sort(random.permutation(len(files))[:ORIGINALS])]
    names = [f"{row:05d}{path.suffix.lower()}" for row, path in enumerate(chosen)]
    for name, path in zip(names, chosen, strict=True):
        (out / name).symlink_to(path.resolve())
    made = {}
    for place, row in enumerate(random.permutation(len(chosen))[:COPIES]):
        kind = KINDS[place % len(KINDS)]
        with Image.open(chosen[row]) as photo:
            copy, quality = change(photo.convert("RGB"), kind, random)
        copy.save(out / f"copy{place:05d}.jpg", quality=quality)
        made[f"copy{place:05d}.jpg"] = names[row], kind
    return made


def change(photo: Image.Image, kind: str, random: np.random.Generator) -> tuple[Image.Image, int]:
    """The copy, and the quality that it is saved with."""
    width, height = photo.size
    if kind == "re-encoded":
        return photo, int(random.integers(40, 91))
    if kind == "resized":
        factor = random.uniform(0.5, 2)
        return photo.resize((round(width * factor), round(height * factor)), Image.Resampling.BICUBIC), 90
    if kind == "mirrored":
        return photo.transpose(Image.Transpose.FLIP_LEFT_RIGHT), 90
    sides = round(0.8 * width), round(0.8 * height)
    left, top = int(random.integers(0, width - sides[0] + 1)), int(random.integers(0, height - sides[1] + 1))
    return photo.crop((left, top, left + sides[0], top + sides[1])), 90


def copies(run: str, files: Sequence[Path], seed: int) -> dict[str, Any]:
    """Recall of each kind and precision, with the encoder's neighbours and without."""
    with tempfile.TemporaryDirectory() as folder:
        photos = Path(folder, "photos")
        photos.mkdir()
        made = plant(files, photos, seed)
        embedding = hp.embed(run, photos, out=Path(folder, "emb"))
        row = {name: place for place, name in enumerate(embedding.files)}
        truth = {(row[copy], row[original]): kind for copy, (original, kind) in made.items()}
        graph = neighbour_graph(embedding)
        found = {}
        for way, neighbours in (("clean", graph.rows), ("without_encoder", np.full((len(row), 1), -1))):
            squares = read_squares([Pictures(embedding)], embedding.folder)
            links = near_links(squares, neighbours, np.arange(len(row)))
            found[way] = judge_links(links, truth, len(row))
    return found


def judge_links(links: Links, truth: dict[tuple[int, int], str], count: int) -> dict[str, Any]:
    """Of pairs in one group: recall by kind; precision by links, of those with a copy, and of all."""
    origin = np.arange(count)
    for copy, original in truth:
        origin[copy] = original
    together = np.arange(count)
    for rows in groups(links, count):
        together[rows] = rows[0]
    hits = {kind: [together[i] == together[j] for (i, j), own in truth.items() if own == kind] for kind in KINDS}
    right = origin[links.i] == origin[links.j]
    natural = {tuple(sorted(pair)) for pair in zip(origin[links.i[~right]], origin[links.j[~right]], strict=True)}
    copied = np.zeros(count, bool)
    copied[[copy for copy, _ in truth]] = True
    with_copy = copied[links.i] | copied[links.j]
    # A copy of one of two natural near duplicates is near the other, too: as wrong or right as the two originals are.
    known = {pair for pair in natural if (~right & ~with_copy & same(links, pair)).any()}
    false = natural - known
    return {
        "recall": float(np.mean([hit for own in hits.values() for hit in own])),
        **{kind: float(np.mean(own)) for kind, own in hits.items()},
        "precision": float(right.sum() / (right.sum() + len(false))),
        "strict_precision": float(right.sum() / (right.sum() + len(natural))),
        "pairs_of_originals": len(known),
    }


def same(links: Links, pair: tuple[int, int]) -> np.ndarray:
    """Which links are this pair."""
    return (links.i == pair[0]) & (links.j == pair[1])


def labels(embedding: Embedding, seed: int) -> dict[str, float]:
    """AUROC of all scores for 5 % of labels that are wrong, and how precise the list of likely errors is."""
    random = np.random.default_rng(seed)
    classes, count = len(embedding.classes), len(embedding)
    rows = random.permutation(count)[: round(0.05 * count)]
    noisy, wrong = embedding.labels.copy(), np.zeros(count, bool)
    noisy[rows] = (noisy[rows] + random.integers(1, classes, len(rows))) % classes
    wrong[rows] = True
    changed, graph, every = dataclasses.replace(embedding, labels=noisy), neighbour_graph(embedding), np.arange(count)
    ours = label_errors(changed, graph, every)
    probabilities = np.zeros((count, classes), np.float32)
    for part, values in out_of_sample(changed, graph, noisy, every):
        probabilities[part] = values.numpy()
    model = LogisticRegression(max_iter=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = cross_val_predict(model, np.asarray(embedding.vectors), noisy, cv=5, method="predict_proba")
    figures = {"ours": roc_auc_score(wrong, -ours.score)}
    for name in SCORES:
        figures[f"cleanlab {name}"] = roc_auc_score(wrong, -get_label_quality_scores(noisy, probabilities, method=name))
    figures["cleanlab's own way"] = roc_auc_score(wrong, -get_label_quality_scores(noisy, theirs))
    figures["accuracy"] = float((probabilities.argmax(1) == embedding.labels).mean())
    figures["listed"] = len(ours.likely)
    figures["listed_wrong"] = float(wrong[ours.likely].mean())
    figures["first_100_wrong"] = float(wrong[ours.likely[:100]].mean())
    return {name: float(value) for name, value in figures.items()}


def part_of(embedding: Embedding, folder: Path) -> Embedding:
    """Some images of an embedding, as one of its own."""
    if len(embedding) <= SOME:
        return embedding
    rows = np.sort(np.random.default_rng(0).permutation(len(embedding))[:SOME])
    bare = bare_embedding(folder, np.asarray(embedding.vectors[rows]))
    manifest = {**embedding.manifest, "vectors_sha256": f"{SOME} of {embedding.manifest['vectors_sha256']}"}
    return dataclasses.replace(bare, labels=embedding.labels[rows], classes=embedding.classes, manifest=manifest)


def cifar10(embedding: Embedding, data_root: Path) -> dict[str, Any]:
    """Test images that have a near duplicate among the training images."""
    began = time.perf_counter()
    found = look(embedding, None, [Pictures(embedding, data_root=data_root)], embedding.folder)
    leaked = {row for group in found.leaks for row in group.rows if embedding.splits[row] == "test"}
    return {
        "groups": len(found.groups),
        "leaks": len(found.leaks),
        "test_images": len(leaked),
        "groups_of_two_labels": sum(len({embedding.label(row) for row in group.rows}) > 1 for group in found.groups),
        "likely_label_errors": len(found.labels.likely),
        "outliers": len(found.outliers),
        "seconds": time.perf_counter() - began,
    }


def timed(root: Path, folder: Path) -> dict[str, float]:
    """Seconds of each step for 100,000 pictures of the sets, with vectors of 512 made of their pixels."""
    squares = [open_images("cifar10", split, size=32, root=root).pixels.numpy() for split in ("train", "test")]
    squares += [np.stack([read_square(path, 32).pixels for path in files_of(root / name)]) for name in SQUARES.values()]
    pixels = np.concatenate(squares)
    more = pixels[: 100_000 - len(pixels), :, 2:30, 2:30]
    pixels = np.concatenate([pixels, np.pad(more, ((0, 0), (0, 0), (2, 2), (2, 2)), "edge")])
    mixing = np.random.default_rng(0).standard_normal((3072, 512), dtype=np.float32)
    vectors = np.concatenate([np.maximum((part / 128 - 1).reshape(len(part), -1).astype("f4") @ mixing, 0)
                              for part in np.array_split(pixels, 100)])  # fmt: skip
    bare = bare_embedding(folder, vectors)
    embedding = dataclasses.replace(
        bare, labels=vectors[:, :10].argmax(1), classes=tuple(map(str, range(10))), sha256=[""] * len(vectors)
    )
    times = {}
    began = time.perf_counter()
    graph = neighbour_graph(embedding)
    times["neighbours"] = time.perf_counter() - began
    began = time.perf_counter()
    label_errors(embedding, graph, np.arange(len(vectors)))
    times["labels"] = time.perf_counter() - began
    began = time.perf_counter()
    links = near_links(Squares(pixels, np.ones(len(pixels), bool)), graph.rows, np.arange(len(pixels)))
    times["pixels"] = time.perf_counter() - began
    return {**times, "sum": sum(times.values()), "links": len(links.i)}


def main() -> None:
    """Measure and write down."""
    options = tyro.cli(Options, description=__doc__)
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as folder:
        figures = {part: DO[part](options, Path(folder)) for part in options.parts}
    record("clean", {**found_before("clean", DO), **figures})


def all_copies(options: Options, _: Path) -> dict[str, Any]:
    """Of each set and seed."""
    runs = {"imagenette": options.imagenette, "pets": options.pets, "flowers": options.imagenette}
    found: dict[str, Any] = {name: [] for name in runs}
    for seed in range(options.seeds):
        for name, run in runs.items():
            found[name].append(copies(run, files_of(options.data_root / SQUARES[name]), seed))
            print("copies", name, seed, found[name][-1], flush=True)
    return found


def embedded(options: Options, folder: Path) -> dict[str, Embedding]:
    """The sets that have labels."""
    sources = {"cifar10": (options.cifar10, "cifar10")}
    sources |= {"imagenette": (options.imagenette, options.data_root / SQUARES["imagenette"])}
    sources |= {"pets": (options.pets, options.data_root / SQUARES["pets"])}
    return {
        name: hp.embed(run, images, out=folder / name, data_root=options.data_root)
        for name, (run, images) in sources.items()
    }


def all_labels(options: Options, folder: Path) -> dict[str, Any]:
    """Of each set and seed."""
    found: dict[str, Any] = {}
    for name, embedding in embedded(options, folder).items():
        (folder / f"some-{name}").mkdir()
        some = part_of(embedding, folder / f"some-{name}")
        found[name] = [labels(some, seed) for seed in range(options.seeds)]
        print("labels", name, found[name], flush=True)
    return found


def leaks(options: Options, folder: Path) -> dict[str, Any]:
    """Of CIFAR-10."""
    found = cifar10(embedded(options, folder)["cifar10"], options.data_root)
    print("cifar10", found, flush=True)
    return found


def times(options: Options, folder: Path) -> dict[str, Any]:
    """For 100,000 images."""
    found = timed(options.data_root, folder)
    print("time", found, flush=True)
    return found


DO = {"copies": all_copies, "labels": all_labels, "cifar10": leaks, "time": times}


if __name__ == "__main__":
    main()
