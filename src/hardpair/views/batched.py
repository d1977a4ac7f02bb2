"""Views as operations on whole batches, on any device: flip, blur and resized crop, then colours.

Each image has its own parameters. Every function computes what ``torchvision.transforms.v2.functional`` computes for
one image (tests compare them).

Flip, blur and crop are linear and work on rows and on columns separately, so each is one (out, in) matrix per axis. A
chain of them is a product of matrices, and a batch is two batched matrix products. A crop that is resized to the size
of its image is never reduced and needs no antialiasing; smaller views do.

Colour operations change floats in [0, 1] of shape (N, 3, H, W), with a factor per image (N,).
"""

import functools

import torch
from torch import Tensor


@functools.cache
def constant(values: float | tuple[float, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    """A tensor of these values, made once: making one at every step would keep a GPU waiting."""
    return torch.tensor(values, device=device, dtype=dtype)


def apply(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """``rows @ image @ columns.T`` for each channel: (N, C, H, W) with (N, h, H) and (N, w, W) gives (N, C, h, w)."""
    count, channels, height, width = images.shape
    # Columns first: all channels and rows of an image share its matrix, so this is one tall product an image.
    wide = torch.bmm(images.reshape(count, channels * height, width), columns.transpose(1, 2))
    wide = wide.view(count, channels, height, columns.shape[1])
    return torch.matmul(rows[:, None], wide)


def crop_positions(start: Tensor, length: Tensor, size: int) -> Tensor:
    """Where a crop of [start, start + length), resized to ``size`` pixels, looks into its axis: (N, size).

    Pixel p covers [p, p + 1). Never outside the crop, so its border is repeated, as in a cut-out image.
    """
    step = (length / size)[:, None]
    position = start[:, None] + step * (torch.arange(size, device=start.device) + 0.5)
    return torch.clamp(position, start[:, None] + 0.5, (start + length)[:, None] - 0.5)


def sampling_matrix(positions: Tensor, size: int) -> Tensor:
    """Bilinear interpolation at (N, out) positions of an axis of ``size`` pixels: (N, out, size)."""
    centres = torch.arange(size, device=positions.device) + 0.5
    return (centres - positions[:, :, None]).abs_().neg_().add_(1).clamp_min_(0)


def shrinking_matrix(start: Tensor, length: Tensor, size: int, out: int) -> Tensor:
    """A crop of [start, start + length) of an axis of ``size`` pixels, resized to ``out``: (N, out, size).

    Where that shrinks it, every new pixel is a mean of those it covers (antialiasing); the crop's border is repeated.
    """
    step, start = (length / out)[:, None, None], start[:, None, None]
    position = start + step * (torch.arange(out, device=start.device) + 0.5)[:, None]  # (N, out, 1)
    centres = torch.arange(size, device=start.device) + 0.5
    weights = (1 - (centres - position).abs() / step.clamp_min(1)).clamp_min_(0)
    weights *= (centres > start) & (centres < start + length[:, None, None])
    return weights / weights.sum(2, keepdim=True)


def blur_matrix(size: int, kernel: int, sigma: Tensor) -> Tensor:
    """Gaussian blur of an axis with reflected borders, each image with its own sigma (N,): (N, size, size)."""
    target = _reflected(size, kernel, sigma.device)
    offsets = torch.arange(kernel, device=sigma.device) - kernel // 2
    weights = torch.exp(-0.5 * (offsets / sigma[:, None]) ** 2)
    weights = (weights / weights.sum(1, keepdim=True))[:, None].expand(-1, size, -1)
    matrix = torch.zeros(len(sigma), size, size, device=sigma.device)
    return matrix.scatter_add_(2, target.expand(len(sigma), -1, -1), weights)


@functools.cache  # the same at every step
def _reflected(size: int, kernel: int, device: torch.device) -> Tensor:
    """Which pixels a blurred pixel looks at: (size, kernel), reflected without repeating the border."""
    target = torch.arange(size, device=device)[:, None] + torch.arange(kernel, device=device) - kernel // 2
    return (size - 1) - ((size - 1) - target.abs()).abs()


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
