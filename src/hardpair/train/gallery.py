"""The hardest pairs a method mines, written down for people to look at.

Labels are read here and nowhere else in training, and only to say how many mined pairs were false negatives.
"""

import json
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from hardpair import distributed
from hardpair.data import Images, epoch_order
from hardpair.data.images import describe_image
from hardpair.errors import no_memory
from hardpair.files import write_atomically
from hardpair.methods import Method, Pairs
from hardpair.views import Draw

SHOWN = 24
LOOKED_AT = 5_000  # images; enough to find hard pairs, and a few seconds of work


def mines(method: Method) -> bool:
    """Whether the method has hard pairs to show."""
    return type(method).hard_pairs is not Method.hard_pairs


def write_pairs(path: Path, method: Method, images: Images, draw: Draw) -> list[tuple[int, int, float]]:
    """Mine one pass over (part of) the images as training would, and keep the nearest pairs, if the method mines.

    The draw is of this process's part of a batch; its step and rows are set here, and its numbers are not those of
    training. MemoryError on all processes where the pairs are too many for one. Returns rows and distance of each pair.
    """
    if not mines(method):  # no views are made to find that out
        return []
    anchor, negative, distance, candidates = _mine(method, images, draw.within("gallery"))
    batch_size = distributed.world_size() * len(draw.positions)
    shown = _nearest_of_each(anchor, negative, distance)
    content = {
        "images": whole_batches(images, batch_size) * batch_size,
        "mined": len(anchor),
        "share": len(anchor) / max(candidates, 1),
        **_false_negatives(anchor, negative, images.labels),
        "pairs": [
            {"distance": d, "anchor": describe_image(images, a), "negative": describe_image(images, n)}
            for a, n, d in shown
        ],
    }
    if distributed.is_main():  # all of them mine, each its own rows; they find the same
        write_atomically(path, json.dumps(content).encode())
    return shown


def whole_batches(images: Images, batch_size: int) -> int:
    """How many batches are looked at: at least one, so that a large batch is not too large."""
    return max(1, min(len(images), LOOKED_AT) // batch_size)


@torch.no_grad()
def _mine(method: Method, images: Images, draw: Draw) -> tuple[Tensor, Tensor, Tensor, int]:
    anchors, negatives, distances, candidates = [], [], [], 0
    batch_size, device = distributed.world_size() * len(draw.positions), draw.positions.device
    order = epoch_order(len(images), seed=draw.seed, epoch=0)
    for step in range(whole_batches(images, batch_size)):  # whole ones only, as in training
        ids = order[step * batch_size :][:batch_size]
        own = distributed.local_rows(ids)
        views = method.views(images.batch(own).to(device), replace(draw, step=step, rows=own.to(device)))
        pairs = _pairs(method, views, device)
        anchors.append(ids[pairs.anchor.cpu()])
        negatives.append(ids[pairs.negative.cpu()])
        distances.append(pairs.distance.cpu())
        candidates += batch_size * (batch_size - 1)
    return torch.cat(anchors), torch.cat(negatives), torch.cat(distances), candidates


def _pairs(method: Method, views: list[Tensor], device: torch.device) -> Pairs:
    """Those of a batch; where the memory of one process is too small, no other goes on to wait for it."""
    pairs, short = None, False
    try:
        pairs = method.hard_pairs(views)
    except Exception as error:
        if not no_memory(error):
            raise
        short = True
    if distributed.any_rank(short, device=device)[0]:
        raise MemoryError
    assert pairs is not None
    return pairs


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
    # A pool of the nearest is enough to fill the gallery, and sorting it is quick however many were mined.
    for k in distance.topk(min(len(distance), 200 * SHOWN), largest=False).indices.tolist():
        a, n = int(anchor[k]), int(negative[k])
        if not seen & {a, n}:
            seen |= {a, n}
            chosen.append((a, n, float(distance[k])))
        if len(chosen) == SHOWN:
            break
    return chosen
