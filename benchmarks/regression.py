"""Logistic regression over 45 penalties: ours beside scikit-learn's, in time and in the minimum reached.

    python benchmarks/regression.py                          10,000 features of 512 numbers, 100 classes; some minutes
    python benchmarks/regression.py --images 1000 --width 64 --classes 10        in short

Both go from the strongest penalty to the weakest and start each fit where the last one ended; scikit-learn's runs with
its own tolerance. The features are made to be like an encoder's: not negative, correlated, of very different sizes.
"""

import time
import warnings
from dataclasses import dataclass

import numpy as np
import torch
import tyro
from record import record
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn.functional import cross_entropy

from hardpair.evaluate.logistic import regression_path
from hardpair.evaluate.transfer import PENALTIES


@dataclass(frozen=True)
class Options:
    """Size of the problem.

    Args:
        images: rows.
        width: features of each.
        classes: classes.
        seed: of the features.
    """

    images: int = 10_000
    width: int = 512
    classes: int = 100
    seed: int = 0


def make(options: Options) -> tuple[Tensor, Tensor]:
    """Features and labels."""
    torch.manual_seed(options.seed)
    labels = torch.arange(options.images) % options.classes
    hidden = torch.randn(options.classes, options.width)[labels] + 2 * torch.randn(options.images, options.width)
    mixing = torch.randn(options.width, options.width) * torch.logspace(0, -2, options.width)[:, None]
    return torch.relu(hidden @ mixing / options.width**0.5 + 0.1), labels


def objective(features: Tensor, labels: Tensor, weight: Tensor, penalty: float) -> float:
    """What both minimise, in double precision."""
    scores = features.double() @ weight[:-1].double() + weight[-1].double()
    return float(cross_entropy(scores, labels) + penalty / 2 * weight[:-1].double().square().sum())


def scikit_learns(features: Tensor, labels: Tensor) -> list[Tensor]:
    """Weights for each penalty."""
    fit = LogisticRegression(warm_start=True, max_iter=5000)
    rows, truth, weights = features.numpy(), labels.numpy(), []
    for penalty in PENALTIES:
        fit.C = 1 / (penalty * len(features))
        fit.fit(rows, truth)
        weights.append(torch.from_numpy(np.concatenate([fit.coef_.T, fit.intercept_[None]])))
    return weights


def main() -> None:
    """Time both, compare the minima, print the ratio."""
    options = tyro.cli(Options, description=__doc__)
    features, labels = make(options)
    regression_path(features[:100], labels[:100], PENALTIES[:2])  # the first call is slower than the rest
    began = time.perf_counter()
    ours = regression_path(features, labels, PENALTIES)
    our_seconds = time.perf_counter() - began
    print(f"ours: {our_seconds:.1f} s", flush=True)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs = scikit_learns(features, labels)
    their_seconds = time.perf_counter() - began
    excess = [
        objective(features, labels, a, penalty) - objective(features, labels, b, penalty)
        for a, b, penalty in zip(ours, theirs, PENALTIES, strict=True)
    ]
    result = {
        "images": options.images,
        "width": options.width,
        "classes": options.classes,
        "ours_seconds": round(our_seconds, 2),
        "scikit_learn_seconds": round(their_seconds, 2),
        "times_faster": round(their_seconds / our_seconds, 1),
        "largest_excess_of_the_objective": max(excess),
        "threads": torch.get_num_threads(),
    }
    record("regression", result)
    print(
        f"scikit-learn takes {result['times_faster']} times as long; our objective is at most {max(excess):.1e} above"
    )


if __name__ == "__main__":
    main()
