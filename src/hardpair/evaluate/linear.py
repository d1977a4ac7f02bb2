"""Linear evaluation: logistic regression on the features, or a layer trained by SGD on random crops (augmented)."""

import copy
import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from hardpair.data import Images, hold_out
from hardpair.errors import UserError
from hardpair.evaluate.context import Context, Measurement, Task
from hardpair.evaluate.features import outputs
from hardpair.evaluate.logistic import predict, regression_path
from hardpair.evaluate.metrics import accuracies, top_1
from hardpair.models import Encoder
from hardpair.protocol_settings import Settings
from hardpair.recipes.tuning import Tuning
from hardpair.train.labelled import tune

PENALTIES = tuple(10.0 ** (power / 2) for power in range(0, -13, -1))  # λ of λ/2·‖W‖²: 1 … 1e-6
REGRESSION: dict[str, Any] = {"strengths": PENALTIES, "held_share": 0.2, "seed": 0}
"""Settings of the regression, by their names in score files."""

# The usual settings on ImageNet: Nesterov's SGD, no weight decay, a cosine.
RATES = (0.4, 0.3, 0.2, 0.1, 0.05)  # for a batch of 256
BATCH_SIZE, EPOCHS = 1024, 80
HELD_SHARE = 0.01  # ImageNet: 12,800 images, about as many as the authors held out


def linear_tasks(context: Context, settings: Settings) -> list[Task]:
    """One task, of either form."""
    if settings.tuned.augmented:
        return [_augmented_task(context, settings)]
    train, test = context.plain("train"), context.plain("test")

    def measure(encoder: Encoder) -> Measurement:
        metrics = linear(context.features(encoder, train), context.features(encoder, test))
        return Measurement(metrics, {"strength": metrics.pop("strength")})

    return [Task("linear", REGRESSION, {"train": train, "test": test}, measure)]


def _augmented_task(context: Context, settings: Settings) -> Task:
    train, test = context.crops("train"), context.centre(functools.partial(context.images, "test"))
    batch_size, epochs = settings.tuned.batch_size or BATCH_SIZE, settings.tuned.epochs or EPOCHS
    used: dict[str, Any] = {"rates": RATES, "batch_size": batch_size, "epochs": epochs, "held_share": HELD_SHARE}

    def measure(encoder: Encoder) -> Measurement:
        metrics = probe(encoder, train, test, seed=context.seed, device=context.device, **used)
        return Measurement(metrics, {"rate": metrics.pop("rate")})

    return Task("linear", {"form": "augmented", **used}, {"train": train, "test": test}, measure)


def linear(
    train: tuple[Tensor, Tensor],
    test: tuple[Tensor, Tensor],
    *,
    penalties: Sequence[float] = PENALTIES,
    held_share: float = REGRESSION["held_share"],
    seed: int = REGRESSION["seed"],
) -> dict[str, float]:
    """Accuracies of logistic regression on the test features, and the chosen penalty as ``strength``.

    The penalty is chosen on a class-balanced part held out of the training set; then the regression is fitted
    again on the whole of it. The test features are used once, at the end.
    """
    features, labels = train
    if labels.unique().numel() < 2:
        raise UserError("linear: the training images have one class only; give two or more, a folder for each")
    kept, held = hold_out(labels, share=held_share, seed=seed)
    if not len(held):
        raise UserError("linear: no class has two training images, so the penalty cannot be chosen")
    fitted = features[kept]
    scale = Standardise(fitted)
    weights = regression_path(scale(fitted), labels[kept], penalties)
    del fitted
    validation = scale(features[held])
    best = first_best([top_1(predict(validation, weight), labels[held]) for weight in weights])
    scale = Standardise(features)
    weight = regression_path(scale(features), labels, penalties[: best + 1])[-1]  # along the same path as chosen
    return {**accuracies(predict(scale(test[0]), weight), test[1]), "strength": penalties[best]}


def first_best(scores: list[float]) -> int:
    """Index of the highest score; of equals the first, which is the strongest penalty on a path from strong to weak."""
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


def probe(
    encoder: Encoder,
    train: Images,
    test: Images,
    *,
    rates: Sequence[float] = RATES,
    batch_size: int = BATCH_SIZE,
    epochs: int = EPOCHS,
    held_share: float = HELD_SHARE,
    seed: int,
    device: torch.device,
) -> dict[str, float]:
    """Accuracies of a linear layer trained by SGD on random crops, and the ``rate`` chosen on held-out images."""
    assert train.labels is not None
    assert test.labels is not None
    kept, held = hold_out(train.labels, share=held_share, seed=0)
    if not len(held):
        raise UserError(f"{train.name}: no class has two images, so the learning rate cannot be chosen")
    fit = functools.partial(fit_probes, encoder, batch_size=batch_size, epochs=epochs, seed=seed, device=device)
    logits = outputs(fit(train.select(kept), rates), train.select(held), device)  # (N, rates, C)
    labels = train.labels[held]
    best = rates[first_best([top_1(of_rate, labels) for of_rate in logits.unbind(1)])]
    logits = outputs(fit(train, (best,)), test, device)[:, 0]
    return {**accuracies(logits, test.labels), "rate": best}


class Probes(nn.Module):
    """A fixed encoder in eval mode with several linear layers, so that one pass over the images trains them all."""

    def __init__(self, encoder: Encoder, count: int, classes: int) -> None:
        super().__init__()
        self.encoder = copy.deepcopy(encoder).eval().requires_grad_(False)
        self.shape = (count, classes)
        self.linear = nn.Linear(encoder.num_features, count * classes)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of each layer: (N, count, C)."""
        logits: Tensor = self.linear(self.encoder(images)).unflatten(1, self.shape)
        return logits


def fit_probes(
    encoder: Encoder,
    images: Images,
    rates: Sequence[float],
    *,
    batch_size: int,
    epochs: int,
    seed: int,
    device: torch.device,
) -> Probes:
    """A linear layer for each learning rate, all trained at once, in eval mode."""
    assert images.labels is not None
    labels = images.labels.to(device)
    batch = min(batch_size, len(images))
    factors = torch.tensor(rates, device=device) * batch / 256
    network = Probes(encoder, len(rates), len(images.classes)).to(device).to(memory_format=torch.channels_last)

    def loss(logits: Tensor, rows: Tensor, _view: Tensor) -> Tensor:
        """Without weight decay, multiplying the loss by a factor multiplies the learning rate by it."""
        targets = labels[rows.to(device), None].expand(-1, len(rates))
        return (cross_entropy(logits.transpose(1, 2), targets, reduction="none").mean(0) * factors).sum()

    tuning = Tuning("sgd", 1.0, batch, epochs * (len(images) // batch))
    label = f"linear layers on {images.name}"
    tune(network, images, tuning, loss, classifier=network.linear, seed=seed, device=device, label=label)
    return network.eval()
