"""One image file → one square of uint8 pixels, or the reason why not."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from hardpair.errors import printable

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF")  # by content, whatever the name says: SUN397 has GIFs named .jpg
MOST_PIXELS = 100_000_000  # Pillow itself stops only at 179 million
LEAST_SIDE = 8


class UnusableError(Exception):
    """Why a file is left out; the message is one short line."""


def decode_file(path: Path, size: int) -> NDArray[np.uint8]:
    """The centre square of an image, resized: uint8 (3, size, size)."""
    if not path.is_file():  # opening a pipe would wait for ever
        raise UnusableError("not a readable file")
    try:
        with path.open("rb") as stream, Image.open(stream, formats=FORMATS) as image:
            return _square(image, size)
    except UnusableError:
        raise
    except Image.DecompressionBombError as error:
        raise UnusableError(_too_large()) from error
    except UnidentifiedImageError as error:
        raise UnusableError("not a JPEG, PNG, WebP, BMP or GIF image") from error
    except Exception as error:  # Pillow's readers raise nearly anything on broken files
        raise UnusableError(f"broken ({printable(str(error))[:80] or type(error).__name__})") from error


def _too_large() -> str:
    return f"over {MOST_PIXELS // 1_000_000} megapixels"


def _square(image: Image.Image, size: int) -> NDArray[np.uint8]:
    width, height = image.size  # from the header: nothing is decoded yet
    if width * height > MOST_PIXELS:
        raise UnusableError(_too_large())
    if min(width, height) < LEAST_SIDE:
        raise UnusableError(f"{width} × {height} pixels, smaller than {LEAST_SIDE}")
    image.draft(None, (2 * size, 2 * size))  # JPEG only: decode at 1/2, 1/4 or 1/8, still twice what we need
    colour = to_rgb(ImageOps.exif_transpose(image))
    width, height = colour.size
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    # Cropping inside the resize gives the same square, and no giant strip for a picture of 8 × 100,000.
    square = colour.resize((size, size), Image.Resampling.BICUBIC, box=(left, top, left + side, top + side))
    return np.ascontiguousarray(np.asarray(square).transpose(2, 0, 1))


def to_rgb(image: Image.Image) -> Image.Image:
    """Any mode → RGB; what is transparent becomes white, since the colour beneath it means nothing."""
    if image.mode.startswith("I"):  # 16 bits: Pillow's own conversion would clip at 255
        deep = np.asarray(image).astype(np.int64).clip(0, 65_535)
        return Image.fromarray(((deep + 128) // 257).astype(np.uint8)).convert("RGB")
    if not image.has_transparency_data:
        return image.convert("RGB")
    layer = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
