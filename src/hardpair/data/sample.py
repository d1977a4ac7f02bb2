"""The bundled sample: 6,000 images of CIFAR-10, so that the first run needs no download.

Each split is one lossless WebP sheet, rows of 100 images sorted by class; `scripts/make_sample.py` made it, and
`sample/sample.json` says which images they are.
"""

import functools
import json
from importlib.resources import files
from typing import Any

import numpy as np
import torch
from PIL import Image

from hardpair.data.images import Images, Split

SIDE = 32  # pixels of an image
ACROSS = 100  # images in a row of the sheet


def read_sample(split: Split) -> Images:
    """The bundled images of one split: 5,000 to train on, 1,000 to test on, ten balanced classes."""
    facts = sample_facts()
    classes = tuple(facts["classes"])
    labels = torch.arange(len(classes)).repeat_interleave(facts["splits"][split]["per_class"])
    return Images(_pixels(split), labels, classes, name=f"sample/{split}")


@functools.cache  # 15 MB, and a quarter of a second each time; nobody writes to the pixels of Images
def _pixels(split: Split) -> torch.Tensor:
    with (files("hardpair.data") / "sample" / f"{split}.webp").open("rb") as stream:
        return cut_sheet(Image.open(stream, formats=["WEBP"]))


def sample_facts() -> dict[str, Any]:
    """What `sample.json` records: classes, counts, source, hashes and the index of every picked image."""
    facts: dict[str, Any] = json.loads((files("hardpair.data") / "sample" / "sample.json").read_text("utf-8"))
    return facts


def cut_sheet(sheet: Image.Image) -> torch.Tensor:
    """Sheet of images in reading order → uint8 (N, 3, 32, 32)."""
    grid = np.asarray(sheet.convert("RGB")).reshape(-1, SIDE, ACROSS, SIDE, 3)  # (row, y, column, x, colour)
    return torch.from_numpy(np.ascontiguousarray(grid.transpose(0, 2, 4, 1, 3)).reshape(-1, 3, SIDE, SIDE))


def make_sheet(pixels: torch.Tensor) -> Image.Image:
    """The inverse of `cut_sheet`; the number of images must fill whole rows."""
    grid = pixels.numpy().reshape(-1, ACROSS, 3, SIDE, SIDE).transpose(0, 3, 1, 4, 2)
    return Image.fromarray(np.ascontiguousarray(grid).reshape(-1, ACROSS * SIDE, 3))
