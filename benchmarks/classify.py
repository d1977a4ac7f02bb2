"""Heads of `hardpair classify` beside scikit-learn's LogisticRegressionCV: accuracy, calibration and time.

    python benchmarks/classify.py --sets data/pets@ENCODER data/imagenette-96@ENCODER sample@ENCODER

Labels are drawn from the training split, 5 and 20 of each class and all; both are measured on the test split. Both see
the same vectors, labels and folds. scikit-learn runs twice: with its own ten strengths on the vectors as they are, and,
where labels are few, with as many strengths as ours. It chooses by accuracy, ours by log loss. Expected calibration
error has 15 bins.
"""

import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from numpy.typing import NDArray
from record import record
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import PredefinedSplit

import hardpair as hp
from hardpair.embeddings.embedding import Embedding
from hardpair.embeddings.fit_head import PENALTIES, fit_head, stratified_folds
from hardpair.embeddings.head_report import calibration_error
from hardpair.machine import prepare_to_compute

Probabilities = Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True)
class Options:
    """What is classified.

    Args:
        sets: DATA@ENCODER: a set with a training and a test split, and whose vectors to take.
        image_size: pixels that an encoder of a file of weights sees.
        per_class: labels; 0 is all.
        seeds: draws of the labels; with all labels they are different folds.
    """

    sets: tuple[str, ...]
    image_size: int = 64
    per_class: tuple[int, ...] = (5, 20, 0)
    seeds: int = 3


def main() -> None:
    """Fit, compare, print, record."""
    options = tyro.cli(Options, description=__doc__)
    prepare_to_compute(1)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for place, name in enumerate(options.sets):
            data, _, encoder = name.partition("@")
            size = options.image_size if Path(encoder).is_file() else None
            embedding = hp.embed(encoder, data, out=Path(folder, str(place)), image_size=size, threads=1)
            for per_class in options.per_class:
                results = defaultdict(list)
                for seed in range(options.seeds):
                    for who, result in compare(embedding, per_class, seed).items():
                        results[who].append(result)
                line = {
                    "data": data,
                    "encoder": Path(encoder).name,
                    "per_class": per_class or "all",
                    **summary(results),
                }
                print(line, flush=True)
                found.append(line)
    record("classify", {"seeds": options.seeds, "found": found})


def compare(embedding: Embedding, per_class: int, seed: int) -> dict[str, tuple[float, float, float]]:
    """Accuracy in per cent, calibration error and seconds of each way to fit."""
    train, test = (np.flatnonzero(rows) for rows in split(embedding))
    rows, labels = drawn(train, embedding.labels, per_class, seed), embedding.labels
    vectors = np.asarray(embedding.vectors, np.float32)
    folds = PredefinedSplit(stratified_folds(labels[rows], 5, seed))
    ways: dict[str, Callable[[], Probabilities]] = {
        "ours": lambda: ours(embedding, rows, seed),
        "scikit-learn": lambda: theirs(vectors[rows], labels[rows], folds, 10),
    }
    if per_class:
        variance = float(vectors[rows].var(0).mean())  # our penalties are for vectors of variance 1
        strengths = [1 / (penalty * variance * len(rows)) for penalty in PENALTIES]
        ways["scikit-learn, our strengths"] = lambda: theirs(vectors[rows], labels[rows], folds, strengths)
    found = {}
    for who, fit in ways.items():
        began = time.perf_counter()
        probabilities = fit()(vectors[test])
        right = probabilities.argmax(axis=1) == labels[test]
        error = calibration_error(probabilities.max(axis=1), right)
        found[who] = (100 * float(right.mean()), error, time.perf_counter() - began)
    return found


def split(embedding: Embedding) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which images are of the training split, and which of the other."""
    train = np.array([name == "train" for name in embedding.splits])
    return train, ~train


def drawn(train: NDArray[np.int64], labels: NDArray[np.int64], per_class: int, seed: int) -> NDArray[np.int64]:
    """Rows of so many labels of each class."""
    if not per_class:
        return train
    random = np.random.default_rng(seed)
    classes = np.unique(labels[train])
    return np.concatenate([random.permutation(train[labels[train] == k])[:per_class] for k in classes])


def ours(embedding: Embedding, rows: NDArray[np.int64], seed: int) -> Probabilities:
    """As `hardpair classify` fits."""
    encoder = embedding.manifest["encoder"]
    fit = fit_head(embedding.vectors[rows], embedding.labels[rows], embedding.classes, encoder=encoder, seed=seed)
    return fit.head.probabilities


def theirs(vectors: NDArray[Any], labels: NDArray[Any], folds: PredefinedSplit, strengths: Any) -> Probabilities:
    """As scikit-learn fits."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fits that end before they have converged
        fit = LogisticRegressionCV(Cs=strengths, cv=folds, max_iter=1000).fit(vectors, labels)
    probabilities: Probabilities = fit.predict_proba
    return probabilities


def summary(results: dict[str, list[tuple[float, float, float]]]) -> dict[str, Any]:
    """Means and standard deviations over the seeds, and the worst calibration."""
    found = {}
    for who, values in results.items():
        accuracy, error, seconds = np.array(values).T
        found[who] = {
            "accuracy": round(float(accuracy.mean()), 2),
            "deviation": round(float(accuracy.std(ddof=1)), 2) if len(values) > 1 else 0.0,
            "calibration_error": round(float(error.mean()), 4),
            "worst_calibration_error": round(float(error.max()), 4),
            "seconds": round(float(np.median(seconds)), 2),
        }
    return found


if __name__ == "__main__":
    main()
