"""How well one picture lies on another: scale and offset found to a fraction of a pixel, then correlations of pixels.

Gauss-Newton (Lucas and Kanade 1981) on scale and offset along both axes, for many pairs at a time: first on a quarter
of the pixels, which is enough to tell most pairs apart, then on all of them.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

STEPS = 5  # of each search
DAMPING, FARTHEST = 1e-3, 0.1  # of the normal equations; change of a number in one step
LIKELY = 0.86  # correlation of a quarter of the pixels, from which on the others are looked at
LEAST_SCALE, MOST_SCALE = 0.5, 1.4
AT_ONCE = 1024  # pairs


class Match(NamedTuple):
    """How alike two pictures are where one lies on the other; columns (M,) for pairs, 0 for unlikely ones."""

    grey: NDArray[np.float32]  # correlation of grey values
    colour: NDArray[np.float32]  # of the three channels together
    detail: NDArray[np.float32]  # of grey values less the mean of their surroundings
    overlap: NDArray[np.float32]  # share of the second picture that the first shows


def register(first: NDArray[np.uint8], second: NDArray[np.uint8], start: NDArray[np.float32]) -> Match:
    """Lay the first (M, 3, S, S) on the second, from scales and offsets (M, 4) on."""
    parts = [
        _register(*(torch.from_numpy(values[at : at + AT_ONCE]).float() for values in (first, second, start)))
        for at in range(0, len(first), AT_ONCE)
    ]
    return Match(*torch.cat([torch.zeros(0, 4), *parts]).T.numpy())


def _register(first: Tensor, second: Tensor, where: Tensor) -> Tensor:
    """(M, 4): the columns of a match."""
    ours, theirs = first.mean(1, keepdim=True), second.mean(1, keepdim=True)  # (M, 1, S, S)
    few, few_too = functional.avg_pool2d(ours, 2), functional.avg_pool2d(theirs, 2)
    where = _align(few, few_too, where)
    warped, inside = _warp(few, where)
    likely = (_correlation(warped, few_too, inside) >= LIKELY).nonzero()[:, 0]
    found = torch.zeros(len(first), 4)
    if len(likely):
        where = _align(_smooth(ours[likely]), _smooth(theirs[likely]), where[likely])
        found[likely] = _compare(first[likely], second[likely], where)
    return found


def _align(ours: Tensor, theirs: Tensor, where: Tensor) -> Tensor:
    """Better scales and offsets (M, 4) for grey pictures (M, 1, S, S)."""
    slopes = torch.cat([ours, *_slopes(ours)], 1)  # (M, 3, S, S): value, change along x, along y
    for _ in range(STEPS):
        warped, inside = _warp(slopes, where)
        where = where + _step(warped, theirs[:, 0], inside[:, 0])
        scales = where[:, ::2].abs().clamp(LEAST_SCALE, MOST_SCALE) * where[:, ::2].sign()
        where = torch.stack([scales[:, 0], where[:, 1], scales[:, 1], where[:, 3]], 1)
    return where


def _smooth(grey: Tensor) -> Tensor:
    """Means of 3 × 3, so that slopes reach a little farther."""
    return functional.avg_pool2d(functional.pad(grey, (1, 1, 1, 1), mode="replicate"), 3, 1)


def _slopes(grey: Tensor) -> tuple[Tensor, Tensor]:
    """Change per unit of the coordinates, in which a picture is 2 wide and a pixel 2 / S."""
    wide = functional.pad(grey, (1, 1, 1, 1), mode="replicate")
    scale = grey.shape[-1] / 4
    return (wide[..., 1:-1, 2:] - wide[..., 1:-1, :-2]) * scale, (wide[..., 2:, 1:-1] - wide[..., :-2, 1:-1]) * scale


def _line(side: int) -> Tensor:
    """Centres of pixels, from -1 to 1."""
    return (torch.arange(side) * 2 + 1) / side - 1


def _warp(images: Tensor, where: Tensor) -> tuple[Tensor, Tensor]:
    """The first (M, C, S, S) as the second shows it, and which of its pixels the first has: bool (M, 1, S, S)."""
    line = _line(images.shape[-1])
    x = where[:, 0, None] * line + where[:, 1, None]  # (M, S)
    y = where[:, 2, None] * line + where[:, 3, None]
    shape = (len(images), len(line), len(line))
    grid = torch.stack([x[:, None, :].expand(shape), y[:, :, None].expand(shape)], 3)
    inside = ((x.abs() <= 1)[:, None, :] & (y.abs() <= 1)[:, :, None])[:, None]
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=False), inside


def _normal(values: Tensor, inside: Tensor) -> tuple[Tensor, Tensor]:
    """Values (M, C, S, S), less their mean over the inside and 0 outside, and their spread (M, 1, 1, 1)."""
    count = inside.sum((1, 2, 3), keepdim=True).clamp_min(1)
    centred = (values - (values * inside).sum((1, 2, 3), keepdim=True) / count) * inside
    return centred, (centred.square().sum((1, 2, 3), keepdim=True) / count).sqrt()


def _correlation(ours: Tensor, theirs: Tensor, inside: Tensor) -> Tensor:
    """(M,) over the inside; 0 where either is flat."""
    first, spread = _normal(ours, inside)
    second, spread_too = _normal(theirs, inside)
    product = (first * second).sum((1, 2, 3), keepdim=True) / inside.sum((1, 2, 3), keepdim=True).clamp_min(1)
    return (product / (spread * spread_too).clamp_min(1e-3)).flatten()


def _step(warped: Tensor, target: Tensor, inside: Tensor) -> Tensor:
    """Change of scales and offsets (M, 4), by least squares on what is inside of both (M, S, S)."""
    ours, our_spread = _normal(warped[:, :1], inside[:, None])
    theirs, their_spread = _normal(target[:, None], inside[:, None])
    gain = their_spread / our_spread.clamp_min(1e-3)
    error = (theirs - ours * gain).flatten(1)  # (M, S·S)
    along = warped[:, 1:] * inside[:, None] * gain  # (M, 2, S, S)
    line = _line(target.shape[-1])
    jacobian = torch.stack([along[:, 0] * line, along[:, 0], along[:, 1] * line[:, None], along[:, 1]], 1).flatten(2)
    jacobian = jacobian - jacobian.mean(2, keepdim=True)
    normal = jacobian @ jacobian.transpose(1, 2)  # (M, 4, 4)
    damping = DAMPING * normal.diagonal(dim1=1, dim2=2).mean(1).clamp_min(1e-3)
    normal = normal + damping[:, None, None] * torch.eye(4)
    step: Tensor = torch.linalg.solve(normal, jacobian @ error[..., None])[..., 0]
    return step.clamp(-FARTHEST, FARTHEST)


def _compare(first: Tensor, second: Tensor, where: Tensor) -> Tensor:
    """The columns of a match, (M, 4)."""
    warped, inside = _warp(first, where)
    ours, theirs = warped.mean(1, keepdim=True), second.mean(1, keepdim=True)
    middle = -functional.max_pool2d(-inside.float(), 3, 1, 1) > 0  # without the pixels along the edge
    channels = (warped - _mean(warped, inside), second - _mean(second, inside))
    columns = [
        _correlation(ours, theirs, inside),
        _correlation(*channels, inside.expand_as(warped)),
        _correlation(_detail(ours), _detail(theirs), middle),
        inside.float().mean((1, 2, 3)),
    ]
    return torch.stack(columns, 1)


def _mean(channels: Tensor, inside: Tensor) -> Tensor:
    """Of each channel: a tint is no difference."""
    return (channels * inside).sum((2, 3), keepdim=True) / inside.sum((2, 3), keepdim=True).clamp_min(1)


def _detail(grey: Tensor) -> Tensor:
    """What the means of 5 × 5 do not tell."""
    return grey - functional.avg_pool2d(functional.pad(grey, (2, 2, 2, 2), mode="replicate"), 5, 1)
