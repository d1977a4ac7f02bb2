"""Nearest neighbours of a few images, written down for people to look at.

Evaluation finds them among test images. Images without labels are never evaluated, so training finds theirs.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import normalize

from hardpair import distributed
from hardpair.data import Images
from hardpair.data.images import describe_image
from hardpair.files import write_atomically
from hardpair.models import Encoder, build_encoder
from hardpair.views import plain_view

FILE = "neighbours.json"
QUERIES, NEIGHBOURS = 8, 6
LOOKED_AT = 1_000  # images of a run without labels; enough to find good neighbours, and a few seconds of work
BATCH = 100


def show_neighbours(run: Path, images: Images, encoder: Encoder, *, seed: int, device: torch.device) -> None:
    """Write the neighbours among evenly spaced images, for the encoder that the run has saved; rank 0 does it alone.

    The weights come from the file, so it does not matter how training holds them.
    """
    if not distributed.is_main() or len(images) < 2:
        return
    rows = torch.linspace(0, len(images) - 1, min(len(images), LOOKED_AT)).round().long()
    some = images.select(rows)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        control = build_encoder(**encoder.settings)
    trained = build_encoder(**encoder.settings)
    trained.load_state_dict(load_file(run / "encoder.safetensors"))
    write_neighbours(run / FILE, _features(trained, some, device), _features(control, some, device), some)


@torch.no_grad()
def _features(encoder: nn.Module, images: Images, device: torch.device) -> Tensor:
    encoder = encoder.to(device).eval()
    views = (plain_view(batch.to(device), images.shown) for batch in images.batches(BATCH))
    return torch.cat([encoder(view).float().cpu() for view in views])


def write_neighbours(path: Path, features: Tensor, control: Tensor, images: Images) -> None:
    """For evenly spaced images, the nearest others under the encoder and under a randomly initialised one."""
    rows = torch.linspace(0, len(images) - 1, QUERIES + 2)[1:-1].round().long().unique()
    near, near_control = nearest(features), nearest(control)
    content = {
        "data": images.name,
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
