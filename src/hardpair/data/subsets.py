"""Splits of labelled rows that keep the balance of the classes."""

from dataclasses import replace

import torch
from torch import Tensor

from hardpair.data.images import Images
from hardpair.data.order import generator_for
from hardpair.errors import UserError, shown


def hold_out(labels: Tensor, *, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Row numbers (kept, held), sorted; of each class `share` is held, to the nearest image.

    A class of two or more has at least one image on either side; a class of one is kept whole, since a class
    that was never seen cannot be recognised.
    """
    if not 0 < share < 1:
        raise UserError(f"share: {share} of the images cannot be held out; give a number between 0 and 1")
    held = torch.zeros(len(labels), dtype=torch.bool)
    for label in sorted(set(labels.tolist())):
        rows = (labels == label).nonzero().flatten()
        count = min(max(1, int(share * len(rows) + 0.5)), len(rows) - 1)
        drawn = torch.randperm(len(rows), generator=generator_for("hold out", int(seed), label))[:count]
        held[rows[drawn]] = True
    return (~held).nonzero().flatten(), held.nonzero().flatten()


def some_of_each(images: Images, data: str, count: str) -> Images:
    """The part that ``data``, "cifar10:10000", names: so many, of each class as many, always the same."""
    wanted = int(count) if count.isdecimal() and len(count) < 20 else 0
    if images.labels is None or not len(images.classes) <= wanted <= len(images):
        bounds = f"{len(images.classes)} to {len(images)}"
        raise UserError(f"data: {shown(data)} is not a number of images that there are; give {bounds}")
    if wanted == len(images):
        return images
    _, chosen = hold_out(images.labels, share=wanted / len(images), seed=0)
    return replace(images.select(chosen), name=f"{data}/train")
