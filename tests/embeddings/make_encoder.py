"""The folder of an encoder without training: what verbs need of a run."""

import dataclasses
import json
from pathlib import Path

import torch

from hardpair.models import Encoder, build_encoder, save_encoder
from hardpair.recipes import Recipe


def make_encoder(
    folder: Path,
    name: str = "resnet10",
    *,
    width: float = 0.25,
    small_images: bool = True,
    image_size: int = 32,
    view_size: float = 1.0,
    seed: int = 0,
) -> Encoder:
    """Write a random encoder, which sees squares of so many pixels; it is in eval mode, and its norms are set."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    encoder = build_encoder(name, width=width, small_images=small_images)
    with torch.no_grad():  # some norms begin at zero, and would hide what lies before them
        for parameter in encoder.parameters():
            if parameter.ndim == 1:
                parameter.uniform_(0.5, 1.5)
    save_encoder(encoder, folder, step=1)
    shape = {"encoder": name, "width": width, "small_images": small_images}
    recipe = dataclasses.replace(Recipe(name="made"), **shape, image_size=image_size, view_size=view_size)
    (folder / "recipe.json").write_text(json.dumps(recipe.to_json()))
    return encoder.eval()
