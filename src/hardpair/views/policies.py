"""Named augmentation policies, and the functions that turn a uint8 batch into a view."""

import functools
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hardpair.views import colour, geometry
from hardpair.views.draw import Draw

MEAN = (0.485, 0.456, 0.406)  # of ImageNet, as the paper says
STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Policy:
    """How much of each operation, in the order in which they are applied."""

    brightness: float
    contrast: float
    saturation: float
    hue: float
    jitter: float  # share of images whose colours are jittered
    grey: float  # share turned grey
    flip: float  # share mirrored
    blur: float  # share blurred
    blur_kernel: int
    blur_sigma: float
    crop: tuple[float, float]  # area of the crop, as a share of the image


PAPER = Policy(
    brightness=0.8,
    contrast=0.8,
    saturation=0.8,
    hue=0.2,
    jitter=0.8,
    grey=0.2,
    flip=0.5,
    blur=0.1,
    blur_kernel=3,
    blur_sigma=1.5,
    crop=(0.8, 1.0),
)

POLICIES: dict[str, Policy] = {
    "paper": PAPER,
    # The paper's colours with crops from a fifth of the image; its own [.8, 1] hardly moves anything.
    "strong": replace(PAPER, crop=(0.2, 1.0)),
    # The same crops with half the jitter, as in MoCo v2: better on small images (docs/log.md).
    "balanced": replace(PAPER, brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1, crop=(0.2, 1.0)),
}


def plain_view(images: Tensor) -> Tensor:
    """The image as it is, normalised: uint8 (N, 3, H, W) → float (N, 3, H, W)."""
    return _normalise(images / 255)


def augmented_view(images: Tensor, policy: Policy, draw: Draw) -> Tensor:
    """One augmented view: uint8 (N, 3, S, S) → normalised float (N, 3, S, S)."""
    view = _change_colours(images / 255, policy, draw)
    return _normalise(_change_geometry(view, policy, draw))


def _change_colours(view: Tensor, policy: Policy, draw: Draw) -> Tensor:
    numbers = draw.uniforms("colour", 10)  # drawn together: a draw costs the same for one number as for ten
    factors = (
        _between(numbers[:, 0], max(0.0, 1 - policy.brightness), 1 + policy.brightness),
        _between(numbers[:, 1], max(0.0, 1 - policy.contrast), 1 + policy.contrast),
        _between(numbers[:, 2], max(0.0, 1 - policy.saturation), 1 + policy.saturation),
        _between(numbers[:, 3], -policy.hue, policy.hue),
    )
    order = numbers[:, 4:8].argsort(dim=1)
    untouched = numbers[:, 8:9] >= policy.jitter
    view = colour.jitter(view, factors, order.masked_fill_(untouched, -1))
    rows = (numbers[:, 9] < policy.grey).nonzero()[:, 0]
    view[rows] = colour.grey(view[rows]).expand(-1, 3, -1, -1)
    return view


def _between(uniform: Tensor, low: float, high: float) -> Tensor:
    return low + (high - low) * uniform


def _change_geometry(view: Tensor, policy: Policy, draw: Draw) -> Tensor:
    """Flip, blur and crop in one pair of matrix products."""
    size, numbers = view.shape[-1], draw.uniforms("geometry", 24)
    top, left, height, width = geometry.crop_boxes(numbers[:, :22], size, policy.crop)
    down, across = geometry.crop_positions(top, height, size), geometry.crop_positions(left, width, size)
    flipped = numbers[:, 22:23] < policy.flip
    rows = geometry.sampling_matrix(down, size)  # (N, S, S)
    columns = geometry.sampling_matrix(torch.where(flipped, size - across, across), size)
    blurred = (numbers[:, 23] < policy.blur).nonzero()[:, 0]
    blur = geometry.blur_matrix(size, view.device, kernel=policy.blur_kernel, sigma=policy.blur_sigma)
    rows[blurred] = rows[blurred] @ blur  # blur is symmetric, so it does not matter that the flip comes before it
    columns[blurred] = columns[blurred] @ blur
    return geometry.apply(view, rows, columns)


def _normalise(view: Tensor) -> Tensor:
    """Mean and standard deviation, written in the channels-last layout that encoders want."""
    normalised = torch.empty_like(view, memory_format=torch.channels_last)
    for channel, (mean, std) in enumerate(zip(MEAN, STD, strict=True)):  # twice as fast as one broadcast operation
        torch.add(_constant(-mean / std, view.device), view[:, channel], alpha=1 / std, out=normalised[:, channel])
    return normalised


@functools.cache
def _constant(value: float, device: torch.device) -> Tensor:
    return torch.tensor(value, device=device)
