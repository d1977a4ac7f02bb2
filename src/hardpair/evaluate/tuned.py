"""Fine-tuning a copy of an encoder with labels, and choosing among ways to do it."""

import functools
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, softplus

from hardpair.data import Images
from hardpair.evaluate.features import outputs
from hardpair.evaluate.kept import Kept
from hardpair.evaluate.linear import first_best
from hardpair.evaluate.metrics import METRICS
from hardpair.models import Classifier, Encoder, fingerprint, set_norm_momentum
from hardpair.recipes.tuning import Tuning
from hardpair.train.finetune import DivergedError, tune

DIVERGED = -1.0  # in place of a score: less than any


@dataclass(frozen=True)
class FineTuner:
    """An encoder to begin from, perhaps with the first layer of its head, and how to train it."""

    encoder: Encoder
    seed: int
    device: torch.device
    head_layer: nn.Sequential | None = None
    norm_follows_epoch: bool = False  # batch norm's statistics reach back at least a tenth of an epoch
    kept: Kept = field(default_factory=Kept)  # what candidates came to before a stop

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
        facts, scores = [*self._facts(), train.digest(), validation.digest(), metric], []
        for number, tuning in enumerate(candidates, 1):
            words = f"{label}, {number} of {len(candidates)}"
            attempt = functools.partial(self._try, tuning, train, validation, metric=metric, label=words)
            scores.append(self.kept.recall([*facts, asdict(tuning)], attempt, _is_score))
        best = first_best(scores)
        if scores[best] < 0:
            raise DivergedError(f"{label}: the loss is not finite at any of the rates")
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


def label_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy of labels (N,); of signs (N, C), binary cross entropy averaged over those that count."""
    if labels.ndim == 1:
        return cross_entropy(scores, labels)
    known = labels.ne(0)
    return (softplus(-labels * scores) * known).sum() / known.sum().clamp_min(1)
