"""Fine-tuning a copy of an encoder with labels, and choosing among ways to do it."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, softplus

from hardpair.data import Images
from hardpair.evaluate.features import outputs
from hardpair.evaluate.linear import first_best
from hardpair.evaluate.metrics import METRICS
from hardpair.models import Classifier, Encoder, set_norm_momentum
from hardpair.recipes.tuning import Tuning
from hardpair.train.tuner import DivergedError, tune


@dataclass(frozen=True)
class FineTuner:
    """An encoder to begin from, perhaps with the first layer of its head, and how to train it."""

    encoder: Encoder
    seed: int
    device: torch.device
    head_layer: nn.Sequential | None = None
    norm_follows_epoch: bool = False  # batch norm's statistics reach back at least a tenth of an epoch

    def fit(self, images: Images, tuning: Tuning, *, label: str) -> Classifier:
        """The whole network trained on the images and their labels, in eval mode."""
        assert images.labels is not None
        network = Classifier(self.encoder, len(images.classes), self.head_layer)
        network = network.to(self.device).to(memory_format=torch.channels_last).train()
        if self.norm_follows_epoch:
            set_norm_momentum(network, min(10 / max(1, len(images) // tuning.batch_size), 0.1))
        labels = images.labels.to(self.device)

        def loss(scores: Tensor, rows: Tensor, _view: Tensor) -> Tensor:
            return label_loss(scores, labels[rows.to(self.device)])

        tune(
            network,
            images,
            tuning,
            loss,
            classifier=network.linear,
            seed=self.seed,
            device=self.device,
            label=label,
        )
        return network.eval()

    def choose(
        self, candidates: Sequence[Tuning], train: Images, validation: Images, *, metric: str, label: str
    ) -> tuple[int, float]:
        """Which candidate's network is best on the validation images, and how good; one that diverges is never it."""
        scores = []
        for number, tuning in enumerate(candidates, 1):
            try:
                network = self.fit(train, tuning, label=f"{label}, {number} of {len(candidates)}")
                scores.append(self.score(network, validation, metric))
            except DivergedError:
                scores.append(-1.0)
        best = first_best(scores)
        if scores[best] < 0:
            raise DivergedError(f"{label}: the loss is not finite at any of the rates")
        return best, scores[best]

    def score(self, network: Classifier, images: Images, metric: str) -> float:
        """The metric on the plain images."""
        assert images.labels is not None
        return METRICS[metric](outputs(network, images, self.device), images.labels)


def label_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy of labels (N,); of signs (N, C), binary cross entropy averaged over those that count."""
    if labels.ndim == 1:
        return cross_entropy(scores, labels)
    known = labels.ne(0)
    return (softplus(-labels * scores) * known).sum() / known.sum().clamp_min(1)
