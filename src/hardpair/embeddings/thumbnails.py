"""Small pictures for a map: many in one JPEG, pictures that lie together on the map in the same one."""

import io
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from hardpair.data.progress import progress
from hardpair.embeddings.pictures import Pictures

SIDES = ((4_000, 96), (10_000, 64), (20_000, 48))  # up to so many thumbnails, pixels of one; a page stays below 30 MB
LEAST_SIDE = 32  # multiples of 16: squares of a JPEG, so that no thumbnail colours its neighbour
ATLAS = 768  # pixels of an atlas: 24 × 24 thumbnails of 32 px, 8 × 8 of 96 px
QUALITY = 74


@dataclass(frozen=True)
class Thumbnails:
    """Atlases of thumbnails: number t is in atlas t // across², row by row."""

    rows: NDArray[np.int64]  # (T,) the image of each; thumbnails of missing pictures are left out
    side: int  # pixels
    atlases: list[bytes]  # JPEG files
    missing: int  # pictures that were looked for and are not there

    @property
    def across(self) -> int:
        """Thumbnails in a row of an atlas."""
        return ATLAS // self.side


def make_thumbnails(
    pictures: Pictures | None, points: NDArray[np.float32], most: int, first: Iterable[int]
) -> Thumbnails:
    """Of all images, or of `most` that are spread over the map as all images are; those of `first` are among them."""
    rows = choose(points, most, first)
    if pictures is None:
        return Thumbnails(rows[:0], LEAST_SIDE, [], len(rows))
    side = _side(pictures, len(rows))
    across = ATLAS // side
    kept: list[int] = []
    atlases: list[bytes] = []
    waiting: list[NDArray[np.uint8]] = []
    with progress("thumbnails", len(rows)) as advance:
        for start in range(0, len(rows), across**2):
            some = [int(row) for row in rows[start : start + across**2]]
            for row, pixels in zip(some, pictures.squares(some, side), strict=True):
                if pixels is not None:
                    kept.append(row)
                    waiting.append(pixels)
            while len(waiting) >= across**2:
                atlases.append(_atlas(waiting[: across**2], across))
                del waiting[: across**2]
            advance(len(some))
    if waiting:
        atlases.append(_atlas(waiting, across))
    return Thumbnails(np.array(kept, dtype=np.int64), side, atlases, len(rows) - len(kept))


def choose(points: NDArray[np.float32], most: int, first: Iterable[int]) -> NDArray[np.int64]:
    """Rows in an order in which neighbours on the map follow each other."""
    order = np.argsort(_morton(points), kind="stable")
    wanted = np.fromiter(dict.fromkeys(first), dtype=np.int64)[:most]
    if len(order) <= most:
        return order
    rest = order[~np.isin(order, wanted)]
    spread = rest[np.linspace(0, len(rest) - 1, most - len(wanted)).round().astype(np.int64)]
    return order[np.isin(order, np.concatenate([wanted, spread]))]


def _morton(points: NDArray[np.float32]) -> NDArray[np.uint64]:
    """The place of each on a curve that fills the plane: bits of x and y by turns."""
    low = points.min(axis=0)
    extent = max(float((points - low).max()), 1e-12)
    cells = ((points - low) * (65_535 / extent)).astype(np.uint64)
    code = np.zeros(len(points), dtype=np.uint64)
    for bit in range(16):
        for axis in range(2):
            code |= (cells[:, axis] >> np.uint64(bit) & np.uint64(1)) << np.uint64(2 * bit + axis)
    return code


def _side(pictures: Pictures, count: int) -> int:
    """As large as the number allows, and the pictures."""
    allowed = next((side for most, side in SIDES if count <= most), LEAST_SIDE)
    largest = int(pictures.embedding.sides.min(axis=1).max())
    return next((side for _, side in SIDES if side <= min(allowed, largest)), LEAST_SIDE)


def _atlas(squares: list[NDArray[np.uint8]], across: int) -> bytes:
    side = squares[0].shape[-1]
    page = np.zeros((3, -(-len(squares) // across) * side, across * side), dtype=np.uint8)
    for place, square in enumerate(squares):
        y, x = (side * part for part in divmod(place, across))
        page[:, y : y + side, x : x + side] = square
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(page.transpose(1, 2, 0))).save(buffer, "JPEG", quality=QUALITY)
    return buffer.getvalue()
