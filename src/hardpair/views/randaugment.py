"""RandAugment on a batch (N, 3, S, S) of floats in [0, 1], each image with its own operations and magnitudes.

What timm computes with PIL for ``rand-n2-m10-mstd0.5``, the setting of InfoMin (tests hold each operation to it), with
two departures: images are moved with bilinear interpolation, where timm picks bilinear or bicubic by chance; and
values are rounded to 8-bit levels only by operations that are defined on levels, where PIL rounds after every one.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from hardpair.views.batched import constant, grey
from hardpair.views.draw import Draw

FILL = (124, 116, 104)  # ImageNet's mean colour in 8-bit levels: what is seen beyond the border of a moved image
HIGHEST = 10  # the scale of magnitudes


def randaugment(images: Tensor, draw: Draw, *, layers: int = 2, magnitude: float = 10, noise: float = 0.5) -> Tensor:
    """In each layer, one of fifteen operations for half of the images: float (N, 3, S, S) in [0, 1] → the same shape.

    Magnitudes are normal with mean ``magnitude`` and deviation ``noise``, cut to [0, 10].
    """
    images = images.clone(memory_format=torch.contiguous_format)
    numbers = draw.uniforms("randaugment", 4 * layers)
    for layer in numbers.view(len(images), layers, 4).unbind(1):
        _apply(images, *_choose(layer, magnitude, noise))
    return images


def _choose(uniforms: Tensor, magnitude: float, noise: float) -> tuple[Tensor, Tensor, Tensor]:
    """From (N, 4) uniform numbers: a place in NAMES (past its end: nothing), a level in [0, 1], a sign; (N,) each."""
    which, whether, how_much, side = uniforms.unbind(1)
    operation = (which * len(NAMES)).long().masked_fill_(whether >= 0.5, len(NAMES))
    normal = torch.special.ndtri(how_much.clamp_min(2.0**-25))  # 0 would be minus infinity
    level = (magnitude + noise * normal).clamp_(0, HIGHEST) / HIGHEST
    return operation, level, torch.where(side < 0.5, 1.0, -1.0)


def _apply(images: Tensor, operation: Tensor, level: Tensor, sign: Tensor) -> None:
    """Change the images in place, those with the same operation together and all moves in one go."""
    counts = torch.bincount(operation, minlength=len(NAMES) + 1).tolist()  # the only wait for the device
    groups = operation.argsort().split(counts)
    for rows, (function, low, high) in zip(groups, _POINTWISE.values(), strict=False):
        if len(rows):
            changed = function(images.index_select(0, rows), low + (high - low) * level[rows])
            images.index_copy_(0, rows, changed)
    rows = torch.cat(groups[len(_POINTWISE) : -1])
    if len(rows):
        moved = _move(images.index_select(0, rows), operation[rows] - len(_POINTWISE), (sign * level)[rows])
        images.index_copy_(0, rows, moved)


def _levels(images: Tensor) -> Tensor:
    """8-bit levels, as floats. Halves are common (a factor of 1.9 makes them) and go up whatever the float rounding."""
    return images.mul(255).add_(0.501).floor_()


def _autocontrast(images: Tensor, _: Tensor) -> Tensor:
    """Stretch each channel to [0, 1]; one of a single level stays as it is."""
    levels = _levels(images).flatten(2)
    low, high = levels.aminmax(dim=2, keepdim=True)
    stretched = (levels - low).div_((high - low).clamp_min_(1)).view_as(images)
    return torch.where((high > low)[..., None], stretched, images)


def _equalize(images: Tensor, _: Tensor) -> Tensor:
    """Make each channel's levels equally frequent, with PIL's whole numbers; where its step is 0 nothing changes."""
    levels = _levels(images).long().view(-1, images.shape[2] * images.shape[3])  # (3 N, S²)
    counts = levels.new_zeros(len(levels), 256).scatter_add_(1, levels, torch.ones_like(levels))
    of_highest = counts.gather(1, levels.amax(dim=1, keepdim=True))
    step = (levels.shape[1] - of_highest) // 255  # (3 N, 1)
    below = counts.cumsum(dim=1) - counts
    table = ((below + step // 2) // step.clamp_min(1)).clamp_(max=255) / 255
    return torch.where((step > 0).view(-1, 3, 1, 1), table.gather(1, levels).view_as(images), images)


def _invert(images: Tensor, _: Tensor) -> Tensor:
    return 1 - images


def _posterize(images: Tensor, bits: Tensor) -> Tensor:
    """Keep the highest bits of each level; of the number of bits, its whole part."""
    width = _wide(torch.exp2(8 - bits.floor()))
    return (_levels(images) / width).floor_() * (width / 255)


def _solarize(images: Tensor, threshold: Tensor) -> Tensor:
    """Invert the levels from the threshold up; 256 inverts none."""
    return torch.where(_levels(images) < _wide(threshold.floor()), images, 1 - images)


def _solarize_add(images: Tensor, amount: Tensor) -> Tensor:
    """Make the darker half of the levels lighter."""
    return torch.where(_levels(images) < 128, images + _wide(amount.floor() / 255), images)


def _colour(images: Tensor, factor: Tensor) -> Tensor:
    return _blend(grey(images), images, factor)


def _contrast(images: Tensor, factor: Tensor) -> Tensor:
    return _blend(grey(images).mean(dim=(2, 3), keepdim=True), images, factor)


def _brightness(images: Tensor, factor: Tensor) -> Tensor:
    return _blend(torch.zeros_like(images), images, factor)


def _sharpness(images: Tensor, factor: Tensor) -> Tensor:
    """Away from, or towards, PIL's smoothing: weights 5 in the middle and 1 around it; the border stays as it is."""
    inner = images[:, :, 1:-1, 1:-1]
    three = images[:, :, :-2] + images[:, :, 1:-1] + images[:, :, 2:]  # sums of slices: much faster than pooling
    nine = three[..., :-2] + three[..., 1:-1] + three[..., 2:]
    smooth = nine.add_(inner, alpha=4).div_(13)
    sharp = images.clone()
    sharp[:, :, 1:-1, 1:-1] = _blend(smooth, inner, factor)
    return sharp


def _blend(other: Tensor, images: Tensor, factor: Tensor) -> Tensor:
    """At factor 0 the other, at 1 the image, and beyond 1 further from the other."""
    return torch.lerp(other, images, _wide(factor)).clamp_(0, 1)


def _wide(numbers: Tensor) -> Tensor:
    return numbers.view(-1, 1, 1, 1)


def _move(images: Tensor, kind: Tensor, amount: Tensor) -> Tensor:
    """Rotate, shear or shift: ``kind`` is a place in _GEOMETRIC, ``amount`` in [-1, 1] a share of the largest move."""
    amounts = amount.new_zeros(len(kind), len(_GEOMETRIC)).scatter_(1, kind[:, None], amount[:, None])
    moves = (column * largest for column, largest in zip(amounts.unbind(1), _GEOMETRIC.values(), strict=True))
    grid = F.affine_grid(_matrices(*moves), list(images.shape), align_corners=False)  # (N, S, S, 2)
    # As in PIL, a pixel is looked up with the border repeated or, if its centre lies outside, is the fill colour.
    moved = F.grid_sample(images, grid, padding_mode="border", align_corners=False)
    moved.clamp_max_(1)  # its four weights may add up to a float more than 1
    across, down = (grid + 1).mul_(0.5).floor_().abs_().clamp_max_(1).unbind(-1)  # 0 within the image, 1 outside
    # A weight of exactly 0 or 1 picks one of the two, and is four times faster than `where`.
    fill = constant(tuple(level / 255 for level in FILL), images.device, images.dtype).view(3, 1, 1)
    return moved.lerp_(fill, torch.maximum(across, down)[:, None])


def _matrices(degrees: Tensor, shear_x: Tensor, shear_y: Tensor, shift_x: Tensor, shift_y: Tensor) -> Tensor:
    """Where a pixel of the result looks, in coordinates of [-1, 1]: (N, 2, 3).

    Only one of the five is not zero, so they need not be multiplied. PIL shears about the top left corner, (-1, -1).
    """
    cos, sin = degrees.deg2rad().cos(), degrees.deg2rad().sin()
    across = torch.stack([cos, shear_x - sin, shear_x + 2 * shift_x], dim=1)
    down = torch.stack([shear_y + sin, cos, shear_y + 2 * shift_y], dim=1)
    return torch.stack([across, down], dim=1)


# The operations under timm's names, with the argument at the magnitudes 0 and 10.
_POINTWISE: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], float, float]] = {
    "AutoContrast": (_autocontrast, 0, 0),
    "Equalize": (_equalize, 0, 0),
    "Invert": (_invert, 0, 0),
    "Posterize": (_posterize, 0, 4),
    "Solarize": (_solarize, 0, 256),
    "SolarizeAdd": (_solarize_add, 0, 110),
    "Color": (_colour, 0.1, 1.9),
    "Contrast": (_contrast, 0.1, 1.9),
    "Brightness": (_brightness, 0.1, 1.9),
    "Sharpness": (_sharpness, 0.1, 1.9),
}

# In the order of the arguments of _matrices, with the argument at the magnitude 10: degrees, slope, share of the side.
# Shifts are relative: the ``translate_const`` that InfoMin also passes is for two operations outside timm's list.
_GEOMETRIC = {"Rotate": 30.0, "ShearX": 0.3, "ShearY": 0.3, "TranslateXRel": 0.45, "TranslateYRel": 0.45}

NAMES = (*_POINTWISE, *_GEOMETRIC)
