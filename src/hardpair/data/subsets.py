"""Splits of labelled rows that keep the balance of the classes."""

import torch
from torch import Tensor

from hardpair.data.order import generator_for
from hardpair.errors import UserError


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
