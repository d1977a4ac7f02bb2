"""The validation split of the sets that bring none: a fixed, balanced part of the official training images."""

import torch
from torch import Tensor

from hardpair.data.order import generator_for


def hold_out_number(labels: Tensor, *, total: int, seed: int) -> tuple[Tensor, Tensor]:
    """Row numbers (kept, held), sorted; `total` images are held, equally many of every class.

    Where they cannot be shared out evenly, the largest classes give one image more. So Cars holds out 9 images
    of its 82 largest classes and 8 of the other 114: 1,650 exactly.
    """
    sizes = labels.bincount().tolist()
    order = sorted(set(labels.tolist()), key=lambda label: (-sizes[label], label))
    each, more = divmod(total, len(order))
    held = torch.zeros(len(labels), dtype=torch.bool)
    for place, label in enumerate(order):
        rows = (labels == label).nonzero().flatten()
        drawn = torch.randperm(len(rows), generator=generator_for("hold out", int(seed), label))
        held[rows[drawn[: each + (place < more)]]] = True
    return (~held).nonzero().flatten(), held.nonzero().flatten()
