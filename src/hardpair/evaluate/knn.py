"""k nearest neighbours: classification by weighted votes."""

import math
from dataclasses import asdict

import torch
from torch import Tensor
from torch.nn.functional import normalize

from hardpair import distributed
from hardpair.errors import UserError
from hardpair.evaluate.context import Context, Measurement, Task
from hardpair.evaluate.metrics import accuracies
from hardpair.models import Encoder
from hardpair.protocol_settings import Settings

MAX_SIMILARITIES = 2**25
"""Entries of the (queries, bank) matrix held at a time: 128 MB, whatever the size of the sets."""


def knn_tasks(context: Context, settings: Settings) -> list[Task]:
    """One task: votes among the features of the training images."""
    train, test = context.plain("train"), context.plain("test")

    def measure(encoder: Encoder) -> Measurement:
        return Measurement(
            knn(context.features(encoder, train), context.features(encoder, test), **asdict(settings.knn))
        )

    details = {"k_used": min(settings.knn.k, len(train))}
    return [Task("knn", asdict(settings.knn), {"train": train, "test": test}, measure, details)]


def knn(
    train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], *, k: int = 200, temperature: float = 0.1
) -> dict[str, float]:
    """Accuracies of votes weighted by exp(cosine / temperature) among the k nearest training features.

    ``train`` and ``test`` are (features (N, D), labels (N,)). The settings are those of Wu et al. 2018. With fewer
    than k training features all of them vote.
    """
    if k < 1 or not 0 < temperature < math.inf:
        raise UserError(f"knn: k must be at least 1 and temperature above 0, not {k} and {temperature:g}")
    bank, labels = normalize(train[0], dim=1), train[1]
    queries = normalize(test[0], dim=1)
    missing = -len(queries) % distributed.world_size()  # pad, so that every rank has equally many
    own = distributed.local_rows(torch.cat([queries, queries[:1].expand(missing, -1)]))
    votes = vote(bank, labels, own, k=min(k, len(bank)), temperature=temperature)
    return accuracies(distributed.gather(votes)[: len(queries)], test[1])


def vote(
    bank: Tensor, labels: Tensor, queries: Tensor, *, k: int, temperature: float, at_once: int = MAX_SIMILARITIES
) -> Tensor:
    """Summed weights of the neighbours of each class: (N, C)."""
    classes = int(labels.max()) + 1
    votes = queries.new_zeros(len(queries), classes)
    rows = max(1, at_once // len(bank))
    for chunk, out in zip(queries.split(rows), votes.split(rows), strict=True):
        similarity, index = (chunk @ bank.T).topk(k, dim=1)
        # Shifting by the best similarity changes no ranking and keeps the exponential in range.
        weight = torch.exp((similarity - similarity[:, :1]) / temperature)
        out.scatter_add_(1, labels[index], weight)
    return votes
