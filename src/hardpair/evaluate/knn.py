"""k nearest neighbours: classification by weighted votes, and the neighbours of a few test images for the report."""

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from hardpair import distributed
from hardpair.data import Images
from hardpair.data.picture import describe_image
from hardpair.errors import UserError
from hardpair.evaluate.context import Context, Measurement, Settings, Task
from hardpair.evaluate.metrics import accuracies
from hardpair.files import write_atomically
from hardpair.models import Encoder

MAX_SIMILARITIES = 2**25
"""Entries of the (queries, bank) matrix held at a time: 128 MB, whatever the size of the sets."""
QUERIES, NEIGHBOURS = 8, 6  # images of the report, and neighbours of each


def knn_tasks(context: Context, settings: Settings) -> list[Task]:
    """One task: votes among the features of the training images."""
    train, test = context.images("train"), context.images("test")

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


def write_neighbours(path: Path, features: Tensor, control: Tensor, images: Images) -> None:
    """For evenly spaced test images, the nearest others under the encoder and under the random control.

    Neighbours are test images too, so that none was trained on.
    """
    rows = torch.linspace(0, len(images) - 1, QUERIES + 2)[1:-1].round().long().unique()
    near, near_control = nearest(features), nearest(control)
    content = {
        "agreement": agreement(near, images.labels),
        "control_agreement": agreement(near_control, images.labels),
        "queries": [
            {
                "image": describe_image(images, row),
                "neighbours": _describe(images, near, row),
                "control": _describe(images, near_control, row),
            }
            for row in rows.tolist()
        ],
    }
    write_atomically(path, json.dumps(content).encode())


def nearest(features: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine similarities and rows of the nearest others of each row, (N, NEIGHBOURS) each."""
    unit = normalize(features, dim=1)
    parts = []
    for start in range(0, len(unit), 1024):
        similarity = unit[start : start + 1024] @ unit.T
        similarity.diagonal(offset=start).fill_(-torch.inf)  # an image is not its own neighbour
        parts.append(similarity.topk(min(NEIGHBOURS, len(unit) - 1), dim=1))
    return torch.cat([p.values for p in parts]), torch.cat([p.indices for p in parts])


def agreement(near: tuple[Tensor, Tensor], labels: Tensor | None) -> float | None:
    """Share of neighbours that have the class of their image."""
    return None if labels is None else float((labels[near[1]] == labels[:, None]).double().mean())


def _describe(images: Images, near: tuple[Tensor, Tensor], row: int) -> list[dict[str, Any]]:
    pairs = zip(near[0][row].tolist(), near[1][row].tolist(), strict=True)
    return [{**describe_image(images, other), "similarity": similarity} for similarity, other in pairs]
