"""Linear evaluation: multinomial logistic regression by L-BFGS on standardised features."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from hardpair.data import hold_out
from hardpair.errors import UserError
from hardpair.evaluate.metrics import accuracies, top_k

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
    classes = int(labels.max()) + 1
    scale = Standardise(features[kept])
    fits = fit_path(scale(features[kept]), labels[kept], classes, strengths)
    scores = [top_k(predict(scale(features[held]), w), labels[held], 1) for w in fits]
    best = max(range(len(strengths)), key=lambda i: scores[i])  # the first of equals: the stronger one
    scale = Standardise(features)
    weight = fit_path(scale(features), labels, classes, strengths[: best + 1])[-1]  # along the same path as chosen
    return {**accuracies(predict(scale(test[0]), weight), test[1]), "strength": strengths[best]}


class Standardise:
    """Mean 0 and variance 1 by the statistics of the features it is made from; constant features become 0."""

    def __init__(self, features: Tensor) -> None:
        self.mean = features.mean(0)
        deviation = features.std(0, correction=0)
        self.scale = torch.where(deviation > 1e-6 * (1 + self.mean.abs()), 1 / deviation, 0.0)

    def __call__(self, features: Tensor) -> Tensor:
        """Standardise features by the statistics of those this was made from."""
        return (features - self.mean) * self.scale


def fit_path(features: Tensor, labels: Tensor, classes: int, strengths: tuple[float, ...]) -> list[Tensor]:
    """Weights (D + 1, C), the last row the bias, for each strength; each fit starts from the one before it."""
    weight = torch.zeros(features.shape[1] + 1, classes)
    weights = []
    for strength in strengths:
        weight = fit(features, labels, strength, start=weight)
        weights.append(weight)
    return weights


def fit(features: Tensor, labels: Tensor, strength: float, *, start: Tensor) -> Tensor:
    """Minimise mean cross entropy + strength / 2 · ||W||², the bias not penalised."""
    weight = start.clone().requires_grad_()
    solver = torch.optim.LBFGS(
        [weight],
        max_iter=500,
        history_size=10,
        tolerance_grad=1e-5,
        tolerance_change=1e-8,
        line_search_fn="strong_wolfe",
    )

    def objective() -> Tensor:
        solver.zero_grad()
        loss = cross_entropy(predict(features, weight), labels) + strength / 2 * weight[:-1].square().sum()
        loss.backward()
        return loss

    solver.step(objective)
    return weight.detach()


def predict(features: Tensor, weight: Tensor) -> Tensor:
    """Class scores (N, C)."""
    return torch.addmm(weight[-1], features, weight[:-1])
