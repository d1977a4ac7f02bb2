"""A linear head from labelled vectors: logistic regression, its strength by cross-validation, then one temperature.

Vectors are centred and divided by one number, so that their coordinates have variance 1 on average; both are folded
into the head. The strength is the one of least log loss on labels that were held out; its penalty counts per label,
so that a fold, which has fewer, is penalised as the whole is. The temperature makes the same held-out logits likely.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from hardpair.data.progress import progress_of
from hardpair.embeddings.head import LinearHead
from hardpair.embeddings.head_report import Report, report_of
from hardpair.evaluate.logistic import predict, regression_path

PENALTIES = tuple(10.0 ** (power / 3) for power in range(5, -16, -1))  # λ of λ/2·‖W‖²: 46 … 1e-5
UNMEASURED = 1.0  # λ where no class has two labels, so that nothing can be held out
FOLDS = 5
REPEATS, FEW = 5, 500  # up to so many labels the folds are drawn several times, since chance weighs much in one draw
MOST = 200_000  # labels × classes for which every fold is fitted; above it a fifth is held out, once
SPREAD = 0.5  # of the temperature's logarithm around 0, before anything is measured; a few labels outweigh it
WIDEST = 20.0  # temperatures from 1/20 to 20


@dataclass(frozen=True)
class Fit:
    """A head, and how good heads fitted in the same way are on labels that were held out."""

    head: LinearHead
    report: Report
    strength: float  # λ of λ/2·‖W‖², for vectors of variance 1 and the mean loss


class Scaling:
    """Centred, and divided by one number: the root of the mean variance."""

    def __init__(self, vectors: Tensor) -> None:
        self.mean = vectors.mean(0)
        spread = float(vectors.var(0, correction=0).double().mean().sqrt())
        self.factor = 1 / spread if spread > 1e-7 * float(self.mean.abs().max()) else 0.0  # else it is all rounding

    def __call__(self, vectors: Tensor) -> Tensor:
        """(n, D) → (n, D) float32."""
        return (vectors - self.mean).mul_(self.factor)

    def folded(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Weight (C, D) and bias (C,) for vectors as they are, from weights (D + 1, C) for scaled ones."""
        folded = weight[:-1].double().T * self.factor
        return folded.float().contiguous(), (weight[-1].double() - folded @ self.mean.double()).float()


def fit_head(
    vectors: NDArray[Any],
    labels: NDArray[np.int64],
    classes: Sequence[str],
    *,
    encoder: Mapping[str, Any],
    contents: Sequence[str] | None = None,
    seed: int = 0,
) -> Fit:
    """Fit a head.

    Args:
        vectors: (n, D) of the labelled pictures.
        labels: (n,) label k is classes[k].
        classes: (C,) each of at least one label. A class of one label is never held out: it is learned, but nothing
            is known of how well.
        encoder: what the manifest says of it.
        contents: (n,) hashes of the pictures: copies are held out together.
        seed: of the folds.
    """
    values, targets = torch.from_numpy(np.asarray(vectors, dtype=np.float32)), torch.from_numpy(labels)
    counts = np.bincount(labels, minlength=len(classes))
    group = None if contents is None else np.unique(contents, return_inverse=True)[1]
    held = HeldOut(targets, len(classes), seed, group)
    strength, temperature, probabilities = held.choose(values)
    scaling = Scaling(values)
    path = PENALTIES[: PENALTIES.index(strength) + 1]  # the same path as in the folds
    weight, bias = scaling.folded(regression_path(scaling(values), targets, path, classes=len(classes))[-1])
    truth = targets[held.rows].numpy()
    predicted, confidence = probabilities.argmax(axis=1), probabilities.max(axis=1)
    report = report_of(predicted, confidence, truth, classes, counts.tolist(), held.how, times=held.times)
    facts = {"labels": len(labels), "strength": strength, "report": report.facts()}
    return Fit(LinearHead(weight, bias, tuple(classes), temperature, dict(encoder), facts), report, strength)


class HeldOut:
    """Labels held out of fits, fold by fold: how strong the penalty should be, and what can be expected."""

    def __init__(self, labels: Tensor, classes: int, seed: int, group: NDArray[np.int64] | None = None) -> None:
        """Pictures of one ``group`` are held out together."""
        self.labels, self.classes = labels, classes
        firsts = slice(None) if group is None else np.unique(group, return_index=True)[1]
        largest = int(labels[firsts].bincount(minlength=classes).max())
        folds, repeats = min(FOLDS, largest), REPEATS if len(labels) <= FEW else 1
        whole = len(labels) * classes <= MOST
        numbers = [stratified_folds(labels.numpy(), folds, seed + repeat, group) for repeat in range(repeats)]
        self.parts = [
            (torch.from_numpy(np.flatnonzero(number != fold)), torch.from_numpy(np.flatnonzero(number == fold)))
            for number in numbers
            for fold in range(folds if whole else 1)
            if folds > 1
        ]
        if not whole:  # enough to measure with
            self.parts = [(kept, held[:: -(-len(held) * classes // MOST)]) for kept, held in self.parts]
        self.rows = torch.cat([held for _, held in self.parts]) if self.parts else torch.empty(0, dtype=torch.int64)
        self.times = repeats if self.parts else 1
        often = f", drawn {REPEATS} times" if self.times > 1 else ""
        self.how = f"{folds}-fold cross-validation{often}" if whole else f"1/{folds} held out"

    def choose(self, vectors: Tensor) -> tuple[float, float, NDArray[np.float32]]:
        """Penalty, temperature, and probabilities (M, C) of the rows that were held out, calibrated by others."""
        if not self.parts:
            return UNMEASURED, 1.0, np.empty((0, self.classes), np.float32)
        of_parts = []
        for number, part in enumerate(self.parts, start=1):
            with progress_of(f"fold {number} of {len(self.parts)}"):
                of_parts.append(torch.stack(list(self._logits(vectors, *part))))
        logits, truth = torch.cat(of_parts, dim=1), self.labels[self.rows]  # (penalties, M, C)
        losses = [float(cross_entropy(of_penalty.double(), truth)) for of_penalty in logits]
        best = min(range(len(losses)), key=losses.__getitem__)
        temperature = fit_temperature(logits[best], truth, len(truth) // self.times)
        apart = self._temperatures(logits[best], truth, temperature)
        probabilities: NDArray[np.float32] = (logits[best] / apart).softmax(1).numpy()
        return PENALTIES[best], temperature, probabilities

    def _temperatures(self, logits: Tensor, truth: Tensor, of_all: float) -> Tensor:
        """(M, 1) for each fold the one that suits the other folds of its draw: no report measures its own fit."""
        if len(self.parts) == 1:
            return logits.new_full((len(logits), 1), of_all)  # one number, of many labels
        fold = torch.repeat_interleave(torch.tensor([len(held) for _, held in self.parts]))
        folds = len(self.parts) // self.times
        found = []
        for number in range(len(self.parts)):
            others = (fold // folds == number // folds) & (fold != number)
            found.append(fit_temperature(logits[others], truth[others], int(others.sum())))
        return logits.new_tensor(found)[fold][:, None]

    def _logits(self, vectors: Tensor, kept: Tensor, held: Tensor) -> Iterator[Tensor]:
        scaling = Scaling(vectors[kept])
        fewer = len(self.labels) / len(kept)
        path = [penalty * fewer for penalty in PENALTIES]
        weights = regression_path(scaling(vectors[kept]), self.labels[kept], path, classes=self.classes)
        scaled = scaling(vectors[held])
        return (predict(scaled, weight) for weight in weights)


def stratified_folds(
    labels: NDArray[np.int64], folds: int, seed: int, group: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """The fold (n,) that holds each label out; those of each class, and all together, are spread evenly.

    -1 for a class of one label: it is never held out, since what was never seen cannot be recognised. All of a
    ``group`` (n,) go where the first of it goes.
    """
    if group is not None:
        _, firsts, inverse = np.unique(group, return_index=True, return_inverse=True)
        return stratified_folds(labels[firsts], folds, seed)[inverse]
    random = np.random.default_rng(seed)
    fold = np.full(len(labels), -1, dtype=np.int64)
    begin = 0
    order = np.argsort(labels, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(labels[order])) + 1):
        if len(rows) > 1:
            fold[random.permutation(rows)] = (begin + np.arange(len(rows))) % folds
            begin += len(rows)
    return fold


def fit_temperature(logits: Tensor, labels: Tensor, count: int) -> float:
    """The temperature of least log loss of so many labels, a little nearer to 1 where they are few."""
    logits = logits.double()

    def loss(logarithm: float) -> float:
        prior = logarithm**2 / (2 * SPREAD**2 * count)
        return float(cross_entropy(logits / math.exp(logarithm), labels)) + prior

    low, high = -math.log(WIDEST), math.log(WIDEST)
    while high - low > 1e-4:  # the loss has one minimum; each round cuts a third
        first, second = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, second) if loss(first) < loss(second) else (first, high)
    return math.exp((low + high) / 2)
