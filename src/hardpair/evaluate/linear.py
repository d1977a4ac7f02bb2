"""Linear evaluation on features as they are: logistic regression, its strength chosen on held-out images."""

import torch
from torch import Tensor

from hardpair.data import hold_out
from hardpair.errors import UserError
from hardpair.evaluate.logistic import predict, regression_path
from hardpair.evaluate.metrics import accuracies, top_1

STRENGTHS = tuple(10.0 ** (power / 2) for power in range(0, -13, -1))  # 1 … 1e-6, from strong to weak


def linear(
    train: tuple[Tensor, Tensor],
    test: tuple[Tensor, Tensor],
    *,
    strengths: tuple[float, ...] = STRENGTHS,
    held_share: float = 0.2,
    seed: int = 0,
) -> dict[str, float]:
    """Top-1 and top-5 on the test features, and the chosen strength.

    The strength is chosen on a class-balanced part held out of the training set; then the regression is fitted
    again on the whole of it. The test features are used once, at the end.
    """
    features, labels = train
    if labels.unique().numel() < 2:
        raise UserError("linear: the training images have one class only; there is nothing to tell apart")
    kept, held = hold_out(labels, share=held_share, seed=seed)
    if not len(held):
        raise UserError("linear: no class has two training images, so the strength cannot be chosen")
    fitted = features[kept]
    scale = Standardise(fitted)
    fits = regression_path(scale(fitted), labels[kept], strengths)
    del fitted
    judged = scale(features[held])
    best = first_best([top_1(predict(judged, weight), labels[held]) for weight in fits])
    scale = Standardise(features)
    weight = regression_path(scale(features), labels, strengths[: best + 1])[-1]  # along the same path as chosen
    return {**accuracies(predict(scale(test[0]), weight), test[1]), "strength": strengths[best]}


def first_best(scores: list[float]) -> int:
    """Where the highest score is; of equals the first, which is the strongest penalty on a path from strong to weak."""
    return max(range(len(scores)), key=lambda i: scores[i])


class Standardise:
    """Mean 0 and variance 1 by the statistics of the features it is made from; constant features become 0."""

    def __init__(self, features: Tensor) -> None:
        self.mean = features.mean(0)
        deviation = features.std(0, correction=0)
        self.scale = torch.where(deviation > 1e-6 * (1 + self.mean.abs()), 1 / deviation, 0.0)

    def __call__(self, features: Tensor) -> Tensor:
        """Standardise features by the statistics of those this was made from."""
        return (features - self.mean).mul_(self.scale)
