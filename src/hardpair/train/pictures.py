"""Pictures of a run for its callbacks: what the encoder is shown, and the hardest pairs that were mined."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate, pad

from hardpair.pixels import MEAN, STD

SHOWN = 16  # images beside their views
SIDE = 96  # pixels of an image in a picture, about
ACROSS = 8  # images and views, about
GAP = 3  # pixels; images or pairs are four times as far from each other as what belongs together
WHITE = 255

Picture = NDArray[np.uint8]  # (H, W, 3)


def views_picture(images: Tensor, views: Sequence[Tensor]) -> Picture:
    """Each image, and to its right all views of it: uint8 (N, 3, S, S) and what a method's ``views`` returns."""
    shown = [view for view in views if view.ndim == 4 and view.shape[:2] == images.shape[:2]]
    return _sheet([images[:SHOWN], *(_pixels(view[:SHOWN]) for view in shown)])


def pairs_picture(anchors: Tensor, negatives: Tensor) -> Picture:
    """Each anchor, and to its right the negative that was mined: uint8 (N, 3, S, S) each."""
    return _sheet([anchors, negatives])


def _pixels(view: Tensor) -> Tensor:
    """The colours that a normalised view stands for."""
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (MEAN, STD))
    return (view.float().cpu() * std + mean).mul(255).round().clamp(0, 255).byte()


def _sheet(columns: Sequence[Tensor]) -> Picture:
    """Rows of groups; in a group stand, side by side, what has the same place in each column."""
    count, size = len(columns[0]), columns[0].shape[-1]
    enlarged = [_resize(column, SIDE // size if size <= SIDE else SIDE / size) for column in columns]
    side = max(column.shape[-1] for column in enlarged) + GAP
    group = torch.cat([_frame(column, side) for column in enlarged], dim=3)  # (N, 3, side, columns · side)
    group = pad(group, (0, 3 * GAP, 0, 0), value=WHITE)
    across = min(count, max(1, ACROSS // len(columns)))
    group = torch.cat([group, group.new_full((-count % across, *group.shape[1:]), WHITE)])
    _, _, height, width = group.shape
    whole = group.view(-1, across, 3, height, width).permute(0, 3, 1, 4, 2).reshape(-1, across * width, 3)
    return whole.numpy()


def _resize(images: Tensor, scale: float) -> Tensor:
    """Enlarged, a pixel becomes a square, as it is; small views stay smaller than others."""
    size = max(1, round(images.shape[-1] * scale))
    if scale >= 1:
        return interpolate(images, (size, size), mode="nearest-exact")
    return interpolate(images, (size, size), mode="bilinear", antialias=True)


def _frame(images: Tensor, side: int) -> Tensor:
    """In the middle of a white square."""
    free = side - images.shape[-1]
    return pad(images, (free // 2, free - free // 2, free // 2, free - free // 2), value=WHITE)
