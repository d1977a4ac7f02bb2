"""Plain JPEGs, decoded by simplejpeg and resized by torch: the fastest pair (docs/explanation/speed.md).

Whatever is not plain, or not whole, is left to the slower reader of all formats, which also says what is wrong with it.
"""

import struct
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import ExifTags, Image
from torch.nn.functional import interpolate

try:
    import simplejpeg
except ImportError:  # a Python that it has no release for yet
    simplejpeg = None

START = b"\xff\xd8\xff"
SEGMENT = struct.Struct(">BBH")  # 255, marker, length
FRAME = struct.Struct(">BHHB")  # bits of a number, height, width, number of colours
PROGRESSIVE, SCAN, METADATA = 0xC2, 0xDA, 0xE1  # markers: each begins a segment
FRAMES = frozenset({0xC0, 0xC1, PROGRESSIVE})
KNOWN = FRAMES | {SCAN, 0xC4, 0xDB, 0xDD, 0xFE, *range(0xE0, 0xF0)}  # and tables, comments, metadata of all kinds
TURNS = {  # orientation in EXIF → mirrored or not, then so many quarter turns to the left
    2: (True, 0),
    3: (False, 2),
    4: (True, 2),
    5: (True, 1),
    6: (False, 3),
    7: (True, 3),
    8: (False, 1),
}


class OddError(Exception):
    """A file that is not for us."""


class Header(NamedTuple):
    """What stands before the first scan of a JPEG."""

    width: int
    height: int
    orientation: int  # as EXIF counts
    one_scan: bool  # libjpeg then refuses a second one; of others it would read any number

    @property
    def sides(self) -> tuple[int, int]:
        """Width and height of the picture once it is turned upright."""
        turned = TURNS.get(self.orientation, (False, 0))[1] % 2 == 1
        return (self.height, self.width) if turned else (self.width, self.height)


def read_header(content: bytes) -> Header:
    """Look at a JPEG without decoding anything."""
    if simplejpeg is None:
        raise OddError
    try:
        return _walk(content)
    except (ValueError, IndexError, struct.error) as error:
        raise OddError from error


def decode_square(content: bytes, header: Header, size: int) -> NDArray[np.uint8]:
    """The centre square, resized: uint8 (3, size, size)."""
    width, height = reduced(header.width, header.height, size)
    try:  # strict: what libjpeg would see past, such as a missing end, is an error
        pixels = simplejpeg.decode_jpeg(content, "RGB", min_width=width, min_height=height, strict=True)
    except ValueError as error:
        raise OddError from error
    if header.orientation in TURNS:
        mirrored, quarters = TURNS[header.orientation]
        pixels = np.rot90(pixels[:, ::-1] if mirrored else pixels, quarters)
    return resize_centre(pixels, size)


def reduced(width: int, height: int, size: int) -> tuple[int, int]:
    """Width and height to decode at: 1/2, 1/4 or 1/8 where that leaves at least twice the size asked for."""
    part = next((part for part in (8, 4, 2) if min(width, height) // part >= 2 * size), 1)
    return -(-width // part), -(-height // part)


def resize_centre(pixels: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """The centre square, bicubic and antialiased as Pillow does it: (H, W, 3) → (3, size, size)."""
    height, width, _ = pixels.shape
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    square = torch.from_numpy(np.ascontiguousarray(pixels[top : top + side, left : left + side]))
    planes = interpolate(square.permute(2, 0, 1)[None], (size, size), mode="bicubic", antialias=True)
    resized: NDArray[np.uint8] = planes[0].contiguous().numpy()
    return resized


def _walk(content: bytes) -> Header:
    """From segment to segment, up to the first scan.

    Only segments that libjpeg must understand as we do, without a byte between them, which it would allow.
    """
    frames, metadata, place, marker, length = [], [], 2, 0, 0
    while marker != SCAN:
        place += length
        start, marker, length = SEGMENT.unpack_from(content, place)
        if start != 0xFF or marker not in KNOWN or length < 2:
            raise OddError
        length += 2  # that of the marker
        if marker in FRAMES:
            frames.append((marker, *FRAME.unpack_from(content, place + 4)))
        elif marker == METADATA:
            metadata.append(content[place + 4 : place + length])
    [(kind, bits, height, width, colours)] = frames
    if bits != 8 or colours not in (1, 3):  # others are CMYK
        raise OddError
    one_scan = kind != PROGRESSIVE and content[place + 4] == colours  # a scan may hold all colours, or some
    return Header(width, height, _orientation(metadata) if metadata else 1, one_scan)


def _orientation(metadata: list[bytes]) -> int:
    exif = b"".join(body[6:] for body in metadata if body.startswith(b"Exif\0\0"))
    tags = Image.Exif()
    try:
        tags.load(exif)
        if ExifTags.Base.Orientation in tags:
            return int(tags[ExifTags.Base.Orientation])
    except Exception as error:  # Pillow's reader raises nearly anything on broken metadata
        raise OddError from error
    if any(b"tiff:Orientation" in body for body in metadata):  # XMP, which Pillow understands, too
        raise OddError
    return 1
