"""What each image of a batch is put through, drawn by a policy."""

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from hardpair.views.draw import Draw
from hardpair.views.geometry import crop_boxes
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
    low, reach = _factor_range(policy, places.device)
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


@functools.cache  # a tensor made at every step would keep a GPU waiting
def _factor_range(policy: Policy, device: torch.device) -> tuple[Tensor, Tensor]:
    """The lowest factor of each operation, and how far the highest is from it: (4,) each."""
    jitters = ((1, policy.brightness), (1, policy.contrast), (1, policy.saturation), (0, policy.hue))
    low = [max(centre - 1, centre - most) for centre, most in jitters]  # no factor below 0
    high = [centre + most for centre, most in jitters]
    return torch.tensor(low, device=device), torch.tensor(high, device=device) - torch.tensor(low, device=device)


def blur_width(policy: Policy, size: int) -> int:
    """Pixels that a blur of an image of ``size`` pixels looks at."""
    return policy.blur_kernel or max(3, size // 20 * 2 + 1)
