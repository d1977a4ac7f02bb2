"""What each image of a batch is put through, drawn by a policy."""

import functools
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardpair.views.constants import constant
from hardpair.views.draw import Draw
from hardpair.views.geometry import crop_boxes
from hardpair.views.loops import compiled_loops_on
from hardpair.views.policies import Policy


@dataclass(frozen=True)
class Parameters:
    """Each tensor has a row an image."""

    factors: Tensor  # (N, 4): of brightness, contrast, saturation and hue
    order: Tensor  # int64 (N, 4): the same four by number, the first applied first; -1 does nothing
    box: Tensor  # int64 (N, 4): top, left, height and width of the crop
    flipped: Tensor  # bool (N,)
    sigma: Tensor  # (N,): of the blur, 0 where there is none
    grey: Tensor  # bool (N,)
    solarised: Tensor  # bool (N,)


def draw_parameters(policy: Policy, draw: Draw, size: int) -> Parameters:
    """For images of ``size`` pixels."""
    # Drawn together: a draw costs the same for one number as for many.
    colours, places = draw.uniforms("colour", 10), draw.uniforms("geometry", 26)
    if compiled_loops_on(colours.device):
        from hardpair.views.choosing import choose  # here, since numba takes a second to import

        return Parameters(*map(torch.from_numpy, choose(colours.numpy(), places.numpy(), *_arrays(policy), size)))
    low, reach = (constant(numbers, colours.device, colours.dtype) for numbers in _factor_range(policy))
    order = colours[:, 4:8].argsort(dim=1).masked_fill_(colours[:, 8:9] >= policy.jitter, -1)
    sigma = policy.blur_sigma[0] + (policy.blur_sigma[1] - policy.blur_sigma[0]) * places[:, 24]
    return Parameters(
        factors=low + reach * colours[:, :4],
        order=order,
        box=torch.stack(crop_boxes(places[:, :22], size, policy.crop), dim=1),
        flipped=places[:, 22] < policy.flip,
        sigma=sigma * (places[:, 23] < policy.blur),
        grey=colours[:, 9] < policy.grey,
        solarised=places[:, 25] < policy.solarise,
    )


def _factor_range(policy: Policy) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The lowest factor of each of the four operations, and how far the highest is from it."""
    jitters = ((1, policy.brightness), (1, policy.contrast), (1, policy.saturation), (0, policy.hue))
    low = tuple(max(centre - 1, centre - most) for centre, most in jitters)  # no factor below 0
    return low, tuple(centre + most - least for (centre, most), least in zip(jitters, low, strict=True))


@functools.cache
def _arrays(policy: Policy) -> list[NDArray[np.float32]]:
    """What choosing.py wants of a policy. Ranges are given by their lowest value and the distance to the highest."""
    ranges = [(low, high - low) for low, high in (policy.crop, policy.blur_sigma)]
    shares = (policy.jitter, policy.flip, policy.blur, policy.grey, policy.solarise)
    return [np.array(numbers, np.float32) for numbers in (_factor_range(policy), *ranges, shares)]


def blur_width(policy: Policy, size: int) -> int:
    """Pixels that a blur of an image of ``size`` pixels looks at."""
    return policy.blur_kernel or max(3, size // 20 * 2 + 1)
