"""Turn a uint8 batch into a view, each image with its own random parameters."""

import functools

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from hardpair.pixels import MEAN, STD
from hardpair.views import colour, geometry
from hardpair.views.draw import Draw
from hardpair.views.policies import POLICIES, Policy
from hardpair.views.randaugment import randaugment


def plain_view(images: Tensor, size: int = 0) -> Tensor:
    """The image as it is, or reduced to ``size`` pixels, normalised: uint8 (N, 3, H, W) → float (N, 3, H, W)."""
    view = images / 255
    if size and size != view.shape[-1]:
        view = interpolate(view, (size, size), mode="bilinear", antialias=True)
    return _normalise(view)


def augmented_view(images: Tensor, policy: Policy, draw: Draw) -> Tensor:
    """One augmented view: uint8 (N, 3, S, S) → normalised float (N, 3, T, T), T the size that the draw asks for."""
    # Drawn together: a draw costs the same for one number as for many.
    view, colours, places = images / 255, draw.uniforms("colour", 10), draw.uniforms("geometry", 26)
    if not policy.crop_first:
        view = _grey(_jitter(view, policy, colours), policy, colours)
        return _normalise(_place(view, policy, places, draw.size, blur=True))
    view = _place(view, policy, places, draw.size, blur=False)
    view = _blur(_jitter(view, policy, colours), policy, places)
    if policy.randaugment:
        view = randaugment(view, draw)
    return _normalise(_solarise(_grey(view, policy, colours), policy, places))


def two_views(
    images: Tensor, first: str, second: str, draw: Draw, scopes: tuple[str, str] = ("first", "second")
) -> list[Tensor]:
    """Two independent views by named policies; of one policy both in one call, faster and the same views."""
    if first == second:
        both = draw.within(*scopes)
        return list(augmented_view(torch.cat([images, images]), POLICIES[first], both).chunk(2))
    return [
        augmented_view(images, POLICIES[name], draw.within(scope))
        for name, scope in zip((first, second), scopes, strict=True)
    ]


def _jitter(view: Tensor, policy: Policy, numbers: Tensor) -> Tensor:
    if not policy.jitter:
        return view
    factors = (
        _between(numbers[:, 0], max(0.0, 1 - policy.brightness), 1 + policy.brightness),
        _between(numbers[:, 1], max(0.0, 1 - policy.contrast), 1 + policy.contrast),
        _between(numbers[:, 2], max(0.0, 1 - policy.saturation), 1 + policy.saturation),
        _between(numbers[:, 3], -policy.hue, policy.hue),
    )
    order = numbers[:, 4:8].argsort(dim=1)
    untouched = numbers[:, 8:9] >= policy.jitter
    return colour.jitter(view, factors, order.masked_fill_(untouched, -1))


def _grey(view: Tensor, policy: Policy, numbers: Tensor) -> Tensor:
    rows = _drawn(numbers[:, 9], policy.grey)
    view[rows] = colour.grey(view[rows]).expand(-1, 3, -1, -1)
    return view


def _place(view: Tensor, policy: Policy, numbers: Tensor, out: int, *, blur: bool) -> Tensor:
    """Flip, blur if wanted, and crop in one pair of matrix products."""
    size = view.shape[-1]
    top, left, height, width = geometry.crop_boxes(numbers[:, :22], size, policy.crop)
    flipped = numbers[:, 22:23] < policy.flip
    if out in (0, size):
        down, across = geometry.crop_positions(top, height, size), geometry.crop_positions(left, width, size)
        rows = geometry.sampling_matrix(down, size)  # (N, S, S)
        columns = geometry.sampling_matrix(torch.where(flipped, size - across, across), size)
    else:
        rows = geometry.shrinking_matrix(top, height, size, out)  # (N, T, S)
        columns = geometry.shrinking_matrix(left, width, size, out)
        columns = torch.where(flipped[:, :, None], columns.flip(2), columns)
    if blur:
        blurred, matrix = _blur_matrices(policy, numbers, size)
        rows[blurred] = rows[blurred] @ matrix  # blur is symmetric, so the flip may as well come before it
        columns[blurred] = columns[blurred] @ matrix
    return geometry.apply(view, rows, columns)


def _blur(view: Tensor, policy: Policy, numbers: Tensor) -> Tensor:
    if policy.blur:
        rows, matrix = _blur_matrices(policy, numbers, view.shape[-1])
        view[rows] = geometry.apply(view[rows], matrix, matrix)
    return view


def _blur_matrices(policy: Policy, numbers: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Which images are blurred, and the matrix of each."""
    rows = _drawn(numbers[:, 23], policy.blur)
    kernel = policy.blur_kernel or max(3, size // 20 * 2 + 1)
    return rows, geometry.blur_matrix(size, kernel, _between(numbers[rows, 24], *policy.blur_sigma))


def _solarise(view: Tensor, policy: Policy, numbers: Tensor) -> Tensor:
    if policy.solarise:
        rows = _drawn(numbers[:, 25], policy.solarise)
        view[rows] = colour.solarise(view[rows])
    return view


def _drawn(uniform: Tensor, share: float) -> Tensor:
    return (uniform < share).nonzero()[:, 0]


def _between(uniform: Tensor, low: float, high: float) -> Tensor:
    return low + (high - low) * uniform


def _normalise(view: Tensor) -> Tensor:
    """Mean and standard deviation, written in the channels-last layout that encoders want."""
    normalised = torch.empty_like(view, memory_format=torch.channels_last)
    for channel, (mean, std) in enumerate(zip(MEAN, STD, strict=True)):  # twice as fast as one broadcast operation
        torch.add(_constant(-mean / std, view.device), view[:, channel], alpha=1 / std, out=normalised[:, channel])
    return normalised


@functools.cache
def _constant(value: float, device: torch.device) -> Tensor:
    return torch.tensor(value, device=device)
