"""Flip, blur and resized crop as matrices.

Each works on rows and on columns separately and is linear, so it is one (out, in) matrix an axis; a chain of them
is a product of matrices, and a batch with its own parameters an image is two batched matrix products. A crop that is
resized to the size of its image is never shrunk and needs no antialiasing; smaller views do. The functions compute
what ``torchvision.transforms.v2.functional`` computes for one image (tests hold them to it).
"""

import functools
import math

import torch
from torch import Tensor


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


def crop_boxes(uniforms: Tensor, size: int, scale: tuple[float, float]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Boxes as RandomResizedCrop draws them: (top, left, height, width), int64 (N,) each.

    ``uniforms`` is (N, 22): ten tries of (area, aspect), then the place. The first try that fits is taken; where
    none does, the largest centred box (torchvision's fallback; square images always allow the aspect 1).
    """
    area = size * size * (scale[0] + (scale[1] - scale[0]) * uniforms[:, 0:10])
    ratio = torch.exp((2 * uniforms[:, 10:20] - 1) * math.log(4 / 3))  # log-uniform in [3/4, 4/3]
    width, height = (area * ratio).sqrt().round().long(), (area / ratio).sqrt().round().long()
    fits = (width > 0) & (width <= size) & (height > 0) & (height <= size)
    first = fits.int().argmax(dim=1, keepdim=True)
    fallback = ~fits.any(dim=1)
    width = width.gather(1, first)[:, 0].masked_fill(fallback, size)
    height = height.gather(1, first)[:, 0].masked_fill(fallback, size)
    top = (uniforms[:, 20] * (size - height + 1)).long()
    left = (uniforms[:, 21] * (size - width + 1)).long()
    return top, left, height, width
