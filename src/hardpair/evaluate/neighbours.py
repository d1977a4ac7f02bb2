"""Nearest neighbours of a few test images, written down for people to look at."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from hardpair.data import Images
from hardpair.data.images import describe_image
from hardpair.files import write_atomically

QUERIES, NEIGHBOURS = 8, 6


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
