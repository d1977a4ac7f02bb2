"""Encoders whose every layer matters, in folders of runs that nobody trained."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hardpair.embeddings.head import LinearHead, save_head
from hardpair.models import Encoder, build_encoder, fingerprint, save_encoder


def stirred(encoder: Encoder) -> Encoder:
    """With statistics and weights of norms that are not those of the start."""
    for module in encoder.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_var, 0.5, 2.0)
            nn.init.normal_(module.running_mean, std=0.1)
            nn.init.normal_(module.weight, 1.0, 0.2)
            nn.init.normal_(module.bias, std=0.1)
    return encoder.eval()


def make_run(
    folder: Path, name: str, *, square: int = 32, shown: int = 32, data: str = "sample", **settings: Any
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    save_encoder(stirred(build_encoder(name, **settings)), folder, step=7)
    recipe = {"name": "demo", "method": "hnpm", "data": data, "epochs": 3, "hash": "abc"}
    recipe |= {"image_size": square, "view_size": shown / square, "encoder": name}
    (folder / "recipe.json").write_text(json.dumps(recipe))
    return folder


def make_head(
    folder: Path, encoder: Encoder, classes: tuple[str, ...], *, square: int = 32, shown: int = 32
) -> LinearHead:
    generator = torch.Generator().manual_seed(1)
    facts = {
        "source": "runs/mine",
        "fingerprint": fingerprint(encoder),
        "num_features": encoder.num_features,
        "settings": dict(encoder.settings),
        "square": square,
        "shown": shown,
        "precision": "float32",
    }
    weight = torch.randn(len(classes), encoder.num_features, generator=generator)
    head = LinearHead(weight, torch.randn(len(classes), generator=generator), classes, 2.5, facts, {"accuracy": 0.75})
    save_head(head, folder)
    return head
