"""JPEG file → square, by the libraries that do it: what our decoding is measured beside."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import simplejpeg
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.nn.functional import interpolate
from torchvision.io import ImageReadMode, decode_jpeg

from hardpair.data.jpeg import reduced, resize_centre

Pixels = NDArray[np.uint8]
Decode = Callable[[Path, int], Pixels]


def centre(width: int, height: int) -> tuple[int, int, int, int]:
    """The centre square: left, top, right, bottom."""
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side


def by_pillow(image: Image.Image, size: int) -> Pixels:
    """Pillow's resize."""
    square = image.resize((size, size), Image.Resampling.BICUBIC, box=centre(*image.size))
    return np.ascontiguousarray(np.asarray(square).transpose(2, 0, 1))


def by_torch(planes: Tensor, size: int) -> Pixels:
    """Torch's resize, which is also torchvision's, of separate planes."""
    left, top, right, bottom = centre(planes.shape[2], planes.shape[1])
    square = planes[None, :, top:bottom, left:right]
    return interpolate(square, (size, size), mode="bicubic", antialias=True)[0].numpy()


def full_size(path: Path, size: int) -> Pixels:
    """What the others are compared with."""
    with Image.open(path) as image:
        return by_pillow(image.convert("RGB"), size)


def draft(path: Path, size: int) -> Image.Image:
    """Pillow's reduced-size decoding."""
    with Image.open(path) as image:
        image.draft("RGB", (2 * size, 2 * size))
        return image.convert("RGB")


def simple(path: Path, size: int) -> Pixels:
    """simplejpeg's, at the same 1/2, 1/4 or 1/8."""
    content = path.read_bytes()
    height, width, *_ = simplejpeg.decode_jpeg_header(content)
    width, height = reduced(width, height, size)
    return simplejpeg.decode_jpeg(content, min_width=width, min_height=height)


def eighths(path: Path, size: int) -> Pixels:
    """simplejpeg's at any number of eighths that leaves twice the size asked for."""
    return simplejpeg.decode_jpeg(path.read_bytes(), min_width=2 * size, min_height=2 * size)


def whole(path: Path) -> Tensor:
    """torchvision's, which has no reduced size."""
    return decode_jpeg(torch.from_numpy(np.fromfile(path, np.uint8)), ImageReadMode.RGB)


PILLOW = "Pillow, Pillow's resize"
BARE: dict[str, Decode] = {
    PILLOW: lambda path, size: by_pillow(draft(path, size), size),
    "Pillow, torch's resize": lambda path, size: resize_centre(np.array(draft(path, size)), size),
    "torchvision, torch's resize": lambda path, size: by_torch(whole(path), size),
    "simplejpeg, torch's resize": lambda path, size: resize_centre(simple(path, size), size),
    "simplejpeg at n/8, torch's resize": lambda path, size: resize_centre(eighths(path, size), size),
}
