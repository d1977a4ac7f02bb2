"""Colour operations on batches (N, 3, H, W) of floats in [0, 1], each image with its own factor (N,).

They compute what ``torchvision.transforms.v2.functional`` computes for one image (tests hold them to it).
"""

import torch
from torch import Tensor

from hardpair.views.constants import constant

GREY = (0.2989, 0.587, 0.114)  # torchvision's weights of red, green and blue
COMPLEMENTS = (1 / 2, 5 / 6, 1 / 6)  # hues opposite to red, green and blue


def grey(images: Tensor) -> Tensor:
    """Luminance, (N, 1, H, W)."""
    weights = constant(GREY, images.device, images.dtype)[None]  # (1, 3)
    return torch.matmul(weights, images.flatten(2)).view(-1, 1, *images.shape[2:])


def hue(images: Tensor, shift: Tensor) -> Tensor:
    """Turn the hue by ``shift`` turns, keeping HSV's value and saturation.

    A channel of HSV is ``value - chroma * clamp(2 - 6 d, 0, 1)`` where d, in [0, 1/2], is how far around the circle
    the hue is from that channel's complement (cyan, magenta, yellow at 1/2, 5/6, 1/6 of a turn): no table of six
    cases, and no remainder, which is slow.
    """
    red, green, blue = images.unbind(1)  # each (N, H, W)
    value = torch.maximum(red, green).maximum(blue)
    chroma = value - torch.minimum(red, green).minimum(blue)
    scale = chroma.mul(6).clamp_min_(torch.finfo(chroma.dtype).tiny).reciprocal_()  # a grey pixel gets hue 0 · huge
    red_turn = (green - blue).mul_(scale)
    green_turn = (blue - red).mul_(scale).add_(1 / 3)
    blue_turn = (red - green).mul_(scale).add_(2 / 3)
    # The sign is 0 where that channel is the largest and 1 elsewhere: a mask, and three times faster than `where`.
    turn = red_turn.lerp_(green_turn.lerp_(blue_turn, (value - green).sign_()), (value - red).sign_())
    turn.add_(shift.view(-1, 1, 1))
    away = turn[:, None] - constant(COMPLEMENTS, images.device, images.dtype).view(3, 1, 1)  # (N, 3, H, W)
    away.sub_(away.round()).abs_()
    falloff = torch.rsub(away, 1 / 3).clamp_(0, 1 / 6)
    return torch.addcmul(value[:, None], chroma[:, None], falloff, value=-6)


def solarise(images: Tensor) -> Tensor:
    """Invert every value from one half upwards."""
    return torch.where(images >= 0.5, 1 - images, images)


BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)  # the operations of a jitter


def jitter(images: Tensor, factors: Tensor, order: Tensor) -> Tensor:
    """Brightness, contrast, saturation and hue, by factors of (N, 4), for image n in the order ``order[n]``.

    ``order`` is (N, slots): BRIGHTNESS, CONTRAST, SATURATION or HUE, the first applied first; -1 does nothing.
    Changes ``images`` and returns it. Three of the four are a blend with something, so each slot is one blend of the
    whole batch; only hue, which is dear, works on the images that have it in this slot.
    """
    # What each slot keeps of the image, and what it adds of the luminance and of its mean; hue and nothing keep all.
    factor = torch.column_stack([factors[:, :HUE], torch.ones_like(factors[:, 0])])
    keep = factor.gather(1, torch.where(order < 0, HUE, order))  # (N, slots)
    of_luminance, of_mean = (1 - keep) * (order == SATURATION), (1 - keep) * (order == CONTRAST)
    weights = torch.stack([keep, of_luminance, of_mean]).unsqueeze(-1).unsqueeze(-1)  # (3, N, slots, 1, 1)
    for slot in range(order.shape[1]):
        keep, of_luminance, of_mean = weights[:, :, slot : slot + 1]  # (N, 1, 1, 1) each
        other = grey(images)
        mean = other.mean(dim=(2, 3), keepdim=True).mul_(of_mean)
        torch.addcmul(mean, other, of_luminance, out=other)
        torch.addcmul(other, images, keep, out=images).clamp_(0, 1)
        rows = (order[:, slot] == HUE).nonzero()[:, 0]
        images.index_copy_(0, rows, hue(images.index_select(0, rows), factors[rows, HUE]))
    return images
