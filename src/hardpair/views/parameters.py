"""What is done to each image of a batch, drawn by a policy."""

import functools
import importlib.util
import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardpair.views.batched import constant
from hardpair.views.draw import Draw
from hardpair.views.policies import Policy

HAS_NUMBA = importlib.util.find_spec("numba") is not None


def has_kernels(device: torch.device) -> bool:
    """Whether compiled loops (kernels.py) are used: on a CPU, and in single precision, as everywhere but in tests."""
    return HAS_NUMBA and device.type == "cpu" and torch.get_default_dtype() == torch.float32


@dataclass(frozen=True)
class ViewParameters:
    """Each tensor has a row per view."""

    factors: Tensor  # (N, 4): of brightness, contrast, saturation and hue
    order: Tensor  # int64 (N, 4): the same four by number, the first applied first; -1 does nothing
    box: Tensor  # int64 (N, 4): top, left, height and width of the crop
    flipped: Tensor  # bool (N,)
    sigma: Tensor  # (N,): of the blur, 0 where there is none
    grey: Tensor  # bool (N,)
    solarised: Tensor  # bool (N,)


def draw_parameters(policy: Policy, draw: Draw, size: int) -> ViewParameters:
    """For images of ``size`` pixels, by each scope of the draw."""
    # Drawn together: a draw costs the same for one number as for many. Of the first, ten are used.
    colours, places = draw.several(("colour", "geometry"), 26)
    if has_kernels(colours.device):
        from hardpair.views.kernels import choose  # here, since numba takes a second to import

        return ViewParameters(*map(torch.from_numpy, choose(colours.numpy(), places.numpy(), *_arrays(policy), size)))
    low, reach = (constant(numbers, colours.device, colours.dtype) for numbers in _factor_range(policy))
    order = colours[:, 4:8].argsort(dim=1).masked_fill_(colours[:, 8:9] >= policy.jitter, -1)
    sigma = policy.blur_sigma[0] + (policy.blur_sigma[1] - policy.blur_sigma[0]) * places[:, 24]
    return ViewParameters(
        factors=low + reach * colours[:, :4],
        order=order,
        box=crop_boxes(places[:, :22], size, policy.crop),
        flipped=places[:, 22] < policy.flip,
        sigma=sigma * (places[:, 23] < policy.blur),
        grey=colours[:, 9] < policy.grey,
        solarised=places[:, 25] < policy.solarise,
    )


def crop_boxes(uniforms: Tensor, size: int, scale: tuple[float, float]) -> Tensor:
    """Boxes as RandomResizedCrop draws them: int64 (N, 4), with the columns top, left, height and width.

    ``uniforms`` is (N, 22): ten tries of (area, aspect), then the place. The first try that fits is taken; where
    none does, the largest centred box (torchvision's fallback; square images always allow the aspect 1).
    """
    area = size * size * (scale[0] + (scale[1] - scale[0]) * uniforms[:, 0:10])
    ratio = torch.exp((2 * uniforms[:, 10:20] - 1) * math.log(4 / 3))  # log-uniform in [3/4, 4/3]
    sides = torch.stack([area / ratio, area * ratio], dim=1).sqrt_().round_()  # (N, 2, 10): heights and widths
    fits = ((sides >= 1) & (sides <= size)).all(dim=1)  # (N, 10)
    sides.masked_fill_(~fits[:, None], size)  # also the first, which is taken where none fits
    taken = sides.gather(2, fits.int().argmax(dim=1)[:, None, None].expand(-1, 2, 1))[:, :, 0]  # (N, 2)
    return torch.cat([uniforms[:, 20:22] * (size + 1 - taken), taken], dim=1).long()


@functools.cache
def _factor_range(policy: Policy) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The lowest factor of each of the four operations, and how far the highest is from it."""
    jitters = ((1, policy.brightness), (1, policy.contrast), (1, policy.saturation), (0, policy.hue))
    low = tuple(max(centre - 1, centre - most) for centre, most in jitters)  # no factor below 0
    return low, tuple(centre + most - least for (centre, most), least in zip(jitters, low, strict=True))


@functools.cache
def _arrays(policy: Policy) -> list[NDArray[np.float32]]:
    """What the kernel wants of a policy. Ranges are given by their lowest value and the distance to the highest."""
    ranges = [(low, high - low) for low, high in (policy.crop, policy.blur_sigma)]
    shares = (policy.jitter, policy.flip, policy.blur, policy.grey, policy.solarise)
    return [np.array(numbers, np.float32) for numbers in (_factor_range(policy), *ranges, shares)]
