"""Fine-tuning a copy of an encoder with labels, and choosing among hyperparameters on validation images."""

import functools
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, softplus

from hardpair.data import Images
from hardpair.evaluate.context import PartialResults
from hardpair.evaluate.features import outputs
from hardpair.evaluate.linear import first_best
from hardpair.evaluate.metrics import METRICS
from hardpair.models import Classifier, Encoder, fingerprint, set_norm_momentum
from hardpair.recipes.tuning import Tuning
from hardpair.train.labelled import DivergedError, tune

DIVERGED = -1.0  # instead of a score: less than any


@dataclass(frozen=True)
class FineTuner:
    """Trains copies of an encoder, optionally with the first layer of its head."""

    encoder: Encoder
    seed: int
    device: torch.device
    head_layer: nn.Sequential | None = None
    norm_follows_epoch: bool = False  # batch norm averages over at least a tenth of an epoch
    partial_results: PartialResults = field(default_factory=PartialResults)  # scores of candidates before a stop

    def fit(self, images: Images, tuning: Tuning, *, label: str) -> Classifier:
        """The whole network trained on the images and their labels, in eval mode."""
        assert images.labels is not None
        network = Classifier(self.encoder, len(images.classes), self.head_layer)
        network = network.to(self.device).to(memory_format=torch.channels_last).train()
        if self.norm_follows_epoch:
            set_norm_momentum(network, min(10 / max(1, len(images) // tuning.batch_size), 0.1))
        labels = images.labels.to(self.device)

        def loss(logits: Tensor, rows: Tensor, _view: Tensor) -> Tensor:
            return label_loss(logits, labels[rows.to(self.device)])

        options: dict[str, Any] = {"seed": self.seed, "device": self.device, "label": label}
        tune(network, images, tuning, loss, classifier=network.linear, **options)
        return network.eval()

    def choose(
        self, candidates: Sequence[Tuning], train: Images, validation: Images, *, metric: str, label: str
    ) -> tuple[int, float]:
        """Index and score of the candidate that is best on the validation images; never one that diverges."""
        facts, scores = [*self._facts(), train.digest(), validation.digest(), metric], []
        for number, tuning in enumerate(candidates, 1):
            numbered = f"{label}, {number} of {len(candidates)}"
            attempt = functools.partial(self._try, tuning, train, validation, metric=metric, label=numbered)
            scores.append(self.partial_results.get_or_compute([*facts, asdict(tuning)], attempt, _is_score))
        best = first_best(scores)
        if scores[best] < 0:
            raise DivergedError(f"{label}: the loss is not finite at any of the learning rates")
        return best, scores[best]

    def _try(self, tuning: Tuning, train: Images, validation: Images, *, metric: str, label: str) -> float:
        try:
            return self.score(self.fit(train, tuning, label=label), validation, metric)
        except DivergedError:
            return DIVERGED

    def _facts(self) -> list[Any]:
        """What a training depends on besides the images and its settings."""
        modules = [None if module is None else fingerprint(module) for module in (self.encoder, self.head_layer)]
        return [*modules, self.seed, str(self.device), torch.get_num_threads(), self.norm_follows_epoch]

    def score(self, network: Classifier, images: Images, metric: str) -> float:
        """The metric on the plain images."""
        assert images.labels is not None
        return METRICS[metric](outputs(network, images, self.device), images.labels)


def _is_score(value: Any) -> bool:
    return type(value) is float and (value == DIVERGED or 0 <= value <= 100)


def label_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy of labels (N,); of signs (N, C), binary cross entropy averaged over those that count."""
    if labels.ndim == 1:
        return cross_entropy(logits, labels)
    known = labels.ne(0)
    return (softplus(-labels * logits) * known).sum() / known.sum().clamp_min(1)
