"""Linear evaluation in ImageNet's form: one layer trained by SGD on random crops, its rate chosen on held-out ones."""

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from hardpair.data import Images, hold_out
from hardpair.errors import UserError
from hardpair.evaluate.features import outputs
from hardpair.evaluate.linear import first_best
from hardpair.evaluate.metrics import accuracies, top_1
from hardpair.models import Encoder
from hardpair.recipes.tuning import Tuning
from hardpair.train.finetune import tune


@dataclass(frozen=True)
class Probing:
    """The usual settings on ImageNet: Nesterov's SGD, no weight decay, a cosine; rates are for a batch of 256."""

    rates: tuple[float, ...] = (0.4, 0.3, 0.2, 0.1, 0.05)
    batch_size: int = 1024
    epochs: int = 80
    held_share: float = 0.01  # ImageNet: 12,800 images, about as many as the authors held out


def probe(
    encoder: Encoder, train: Images, test: Images, probing: Probing, *, seed: int, device: torch.device
) -> tuple[dict[str, float], dict[str, float]]:
    """Top-1 and top-5 on the test images, and the chosen rate."""
    assert train.labels is not None
    assert test.labels is not None
    kept, held = hold_out(train.labels, share=probing.held_share, seed=0)
    if not len(held):
        raise UserError(f"{train.name}: no class has two images, so the learning rate cannot be chosen")
    candidates = _train(encoder, train.select(kept), probing, probing.rates, seed=seed, device=device)
    judged = outputs(candidates, train.select(held), device)  # (N, rates, C)
    labels = train.labels[held]
    best = probing.rates[first_best([top_1(scores, labels) for scores in judged.unbind(1)])]
    final = _train(encoder, train, probing, (best,), seed=seed, device=device)
    return accuracies(outputs(final, test, device)[:, 0], test.labels), {"rate": best}


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
        """Class scores of each layer: (N, count, C)."""
        scores: Tensor = self.linear(self.encoder(images)).unflatten(1, self.shape)
        return scores


def _train(
    encoder: Encoder, images: Images, probing: Probing, rates: tuple[float, ...], *, seed: int, device: torch.device
) -> Probes:
    assert images.labels is not None
    labels = images.labels.to(device)
    batch = min(probing.batch_size, len(images))
    factors = torch.tensor(rates, device=device) * batch / 256
    network = Probes(encoder, len(rates), len(images.classes)).to(device).to(memory_format=torch.channels_last)

    def loss(scores: Tensor, rows: Tensor, _view: Tensor) -> Tensor:
        """Without weight decay, a loss multiplied by a rate and stepped with rate 1 is stepped with that rate."""
        targets = labels[rows.to(device), None].expand(-1, len(rates))
        return (cross_entropy(scores.transpose(1, 2), targets, reduction="none").mean(0) * factors).sum()

    tuning = Tuning("sgd", 1.0, batch, probing.epochs * (len(images) // batch))
    label = f"linear layers on {images.name}"
    tune(network, images, tuning, loss, classifier=network.linear, seed=seed, device=device, label=label)
    return network.eval()
