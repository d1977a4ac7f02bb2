"""The hardest pairs a method mines, written down for people to look at.

Labels are read here and nowhere else in training, and only to say how many mined pairs were false negatives.
"""

import json
from pathlib import Path

import torch
from torch import Tensor

from hardpair.data import Images, epoch_order
from hardpair.data.picture import describe_image
from hardpair.files import write_atomically
from hardpair.methods import Method
from hardpair.views import Draw

SHOWN = 24
LOOKED_AT = 5_000  # images; enough to find hard pairs, and a few seconds of work


def write_pairs(
    path: Path, method: Method, images: Images, *, batch_size: int, seed: int, device: torch.device
) -> None:
    """Mine one pass over (part of) the images as training would, and keep the nearest pairs."""
    found = _mine(method, images, batch_size=batch_size, seed=seed, device=device)
    if found is None:
        return
    anchor, negative, distance, candidates = found
    content = {
        "images": min(len(images), LOOKED_AT),
        "mined": len(anchor),
        "share": len(anchor) / max(candidates, 1),
        **_false_negatives(anchor, negative, images.labels),
        "pairs": [
            {"distance": d, "anchor": describe_image(images, a), "negative": describe_image(images, n)}
            for a, n, d in _nearest_of_each(anchor, negative, distance)
        ],
    }
    write_atomically(path, json.dumps(content).encode())


@torch.no_grad()
def _mine(
    method: Method, images: Images, *, batch_size: int, seed: int, device: torch.device
) -> tuple[Tensor, Tensor, Tensor, int] | None:
    anchors, negatives, distances, candidates = [], [], [], 0
    order = epoch_order(len(images), seed=seed, epoch=0)[:LOOKED_AT]
    for step, ids in enumerate(order.split(batch_size)):
        draw = Draw(seed, step, torch.arange(len(ids), device=device)).within("gallery")
        pairs = method.hard_pairs(method.views(images.pixels[ids].to(device), draw))
        if pairs is None:
            return None
        anchors.append(ids[pairs.anchor.cpu()])
        negatives.append(ids[pairs.negative.cpu()])
        distances.append(pairs.distance.cpu())
        candidates += len(ids) * (len(ids) - 1)
    return torch.cat(anchors), torch.cat(negatives), torch.cat(distances), candidates


def _false_negatives(anchor: Tensor, negative: Tensor, labels: Tensor | None) -> dict[str, float | None]:
    """Share of mined pairs whose images are of one class, and what pairs drawn at random would give."""
    if labels is None or len(anchor) == 0:
        return {"false_negatives": None, "chance": None}
    same = (labels[anchor] == labels[negative]).float().mean()
    counts = torch.bincount(labels).double()
    chance = (counts * (counts - 1)).sum() / (counts.sum() * (counts.sum() - 1))
    return {"false_negatives": float(same), "chance": float(chance)}


def _nearest_of_each(anchor: Tensor, negative: Tensor, distance: Tensor) -> list[tuple[int, int, float]]:
    """The nearest pairs, no image twice, so that one odd image does not fill the gallery."""
    seen: set[int] = set()
    chosen = []
    for k in distance.argsort().tolist():
        a, n = int(anchor[k]), int(negative[k])
        if not seen & {a, n}:
            seen |= {a, n}
            chosen.append((a, n, float(distance[k])))
        if len(chosen) == SHOWN:
            break
    return chosen
