"""Image files → squares of uint8 pixels, or the reasons why not; many at a time, by threads."""

import functools
import hashlib
import logging
import os
import stat
import threading
import warnings
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from hardpair import distributed
from hardpair.data import jpeg
from hardpair.data.images import LEAST_SIZE
from hardpair.data.layout import Listing
from hardpair.data.progress import progress
from hardpair.errors import printable

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF")  # by content, whatever the name says: SUN397 has GIFs named .jpg
MOST_BYTES = 256_000_000  # WebP files are read whole, and metadata is kept, before the size of the picture is known
MOST_AT_ONCE = 16_000_000  # bytes that are read at once; of a longer file Pillow reads a block after the other
MOST_PIXELS = 100_000_000  # Pillow itself stops only at 179 million
SIDEWAYS = (5, 6, 7, 8)  # orientations in EXIF that exchange width and height
MOST_SCANS = 200  # of a JPEG; progressive ones have ten, and each costs a walk over the whole picture
THREADS = min(16, os.cpu_count() or 1)
AT_ONCE = 256  # files handed to the threads at a time, so that finished images do not pile up
MOST_HELD = 1 << 28  # bytes of finished images; fewer files at a time where the squares are large
# Opening a pipe would wait for ever without the second; the third is Windows's.
FOR_READING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
# Blocks of Pillow's above 32 MB go back to the system; smaller ones each thread would keep. Its types do not know of
# its core, hence the exception.
Image.core.set_block_size(64 << 20)  # type: ignore[attr-defined]
log = logging.getLogger("hardpair")


class Room:
    """So many pixels at once, in all threads together: threads that each hold a giant picture would fill any memory."""

    def __init__(self, pixels: int) -> None:
        self.free = self.whole = pixels
        self.changed = threading.Condition()

    def take(self, pixels: int) -> AbstractContextManager[None]:
        """Wait for room, and give it back at the end; whoever wants more than there is waits for all of it."""
        # Of small ones all threads together hold little, and asking would take time.
        return nullcontext() if pixels < self.whole // 100 else self._hold(min(pixels, self.whole))

    @contextmanager
    def _hold(self, pixels: int) -> Iterator[None]:
        with self.changed:
            self.changed.wait_for(lambda: self.free >= pixels)
            self.free -= pixels
        try:
            yield
        finally:
            with self.changed:
                self.free += pixels
                self.changed.notify_all()


ROOM = Room(MOST_PIXELS)


class Square(NamedTuple):
    """A decoded image."""

    pixels: NDArray[np.uint8]  # (3, size, size)
    enlarged: bool  # whether the picture was smaller than that
    sides: tuple[int, int]  # width and height of the picture, as people see it
    sha256: str = ""  # of the file, where that was asked for


Result = Square | str  # or the reason why a file is left out


class UnusableError(Exception):
    """Why a file is left out; the message is one short line."""


def read_square(path: Path, size: int, *, hashed: bool = False) -> Square:
    """The centre square of an image, resized: uint8 (3, size, size), and whether it had to be enlarged.

    With the hash of the file where it is to be `hashed`. UnusableError where it cannot be read.
    """
    try:
        file = _open(path)
        try:
            length = _check_file(os.fstat(file))
            if length <= MOST_AT_ONCE:
                try:
                    return _plain_jpeg(os.read(file, length), size, hashed=hashed)
                except jpeg.OddError:
                    os.lseek(file, 0, os.SEEK_SET)
            square = _by_pillow(file, size)
            return square._replace(sha256=_hash_file(file)) if hashed else square
        finally:
            os.close(file)
    except UnusableError:
        raise
    except Image.DecompressionBombError as error:
        raise UnusableError(_too_large()) from error
    except UnidentifiedImageError as error:
        raise UnusableError("not a JPEG, PNG, WebP, BMP or GIF image") from error
    except Exception as error:  # Pillow's readers raise nearly anything on broken files
        raise UnusableError(_in_words(error)) from error


def decode_batches(
    listing: Listing, size: int, label: str, *, first: int = 0, quiet: bool = False
) -> Generator[list[Result], None, None]:
    """All files from the `first` on, in order, `files_at_once` at a time; `label` is that of the progress bar.

    At the end it says how many were enlarged, unless it is to be `quiet`.
    """
    step, count = files_at_once(size), len(listing.names)
    usable, enlarged = 0, 0
    with progress(label, count - first) as advance, ThreadPoolExecutor(THREADS) as pool:
        for start in range(first, count, step):
            paths = [listing.root / name for name in listing.names[start : min(start + step, count)]]
            batch = decode_files(pool, paths, size)
            squares = [result for result in batch if not isinstance(result, str)]
            usable += len(squares)
            enlarged += sum(square.enlarged for square in squares)
            yield batch
            advance(len(batch))
    if enlarged and not quiet and distributed.is_main():
        log.info("%s of %s images are smaller than %d px and were enlarged", f"{enlarged:,}", f"{usable:,}", size)


def decode_all(
    listing: Listing, size: int, label: str, *, quiet: bool = False
) -> tuple[NDArray[np.uint8], list[int], list[str]]:
    """The usable files as (K, 3, size, size), in memory; which files they are; "file: reason" of the others."""
    pixels = np.empty((len(listing.names), 3, size, size), dtype=np.uint8)
    rows: list[int] = []
    skipped: list[str] = []
    for batch in decode_batches(listing, size, label, quiet=quiet):
        for result in batch:
            file = len(rows) + len(skipped)
            if isinstance(result, str):
                skipped.append(f"{printable(listing.names[file])}: {result}")
            else:
                pixels[len(rows)] = result.pixels
                rows.append(file)
    return pixels[: len(rows)], rows, skipped


def files_at_once(size: int) -> int:
    """How many squares are decoded before they are written, all together."""
    return max(1, min(AT_ONCE, MOST_HELD // (3 * size**2)))


def decode_files(pool: ThreadPoolExecutor, paths: list[Path], size: int, *, hashed: bool = False) -> list[Result]:
    """A square for each, or why not, by the threads of the pool."""
    results: dict[int, Result] = {}
    todo = enumerate(paths)
    read = functools.partial(read_square, hashed=True) if hashed else read_square

    def work() -> None:
        for place, path in todo:  # which all threads share, so that each takes the next file when it is done with one
            try:
                results[place] = read(path, size)
            except UnusableError as reason:
                results[place] = str(reason)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns of large images and odd EXIF; what matters becomes a reason
        try:
            for worker in [pool.submit(work) for _ in range(THREADS)]:
                worker.result()
        finally:
            for _ in todo:  # after Ctrl-C no thread begins another file
                pass
    return [results[place] for place in range(len(paths))]


def _in_words(error: Exception) -> str:
    if isinstance(error, PermissionError):
        return "no permission to read it"
    return f"broken ({printable(str(error))[:80] or type(error).__name__})"


def _too_large() -> str:
    return f"over {MOST_PIXELS // 1_000_000} megapixels"


def _open(path: Path) -> int:
    """The file's descriptor: for thousands of small files a second even Python's file objects take time."""
    try:
        return os.open(path, FOR_READING)
    except PermissionError:
        raise
    except OSError as error:  # a link to nowhere or to itself
        raise UnusableError("not a readable file") from error


def _check_file(facts: os.stat_result) -> int:
    """The length of a file, unless it is nothing to read, or too much."""
    if not stat.S_ISREG(facts.st_mode):
        raise UnusableError("not a readable file")
    if facts.st_size == 0:  # so are the files of the kernel, and some of those wait too
        raise UnusableError("empty")
    if facts.st_size > MOST_BYTES:
        raise UnusableError(f"over {MOST_BYTES // 1_000_000} MB")
    return facts.st_size


def _plain_jpeg(content: bytes, size: int, *, hashed: bool) -> Square:
    """The fast way; what Pillow is to refuse, with the reason, is odd."""
    if not content.startswith(jpeg.START):
        raise jpeg.OddError
    header = jpeg.read_header(content)
    if header.width * header.height > MOST_PIXELS or min(header.width, header.height) < LEAST_SIZE:
        raise jpeg.OddError
    if not header.one_scan and content.count(b"\xff\xda") > MOST_SCANS:
        raise jpeg.OddError
    with ROOM.take(header.width * header.height):
        pixels = jpeg.decode_square(content, header, size)
    sha256 = hashlib.sha256(content).hexdigest() if hashed else ""
    return Square(pixels, min(header.sides) < size, header.sides, sha256)


def _by_pillow(file: int, size: int) -> Square:
    with open(file, "rb", closefd=False) as stream, Image.open(stream, formats=FORMATS) as image:
        _check_header(image)
        _check_scans(image, stream)
        sides = image.size[::-1] if image.getexif().get(ExifTags.Base.Orientation, 1) in SIDEWAYS else image.size
        with ROOM.take(image.width * image.height):
            return Square(_square(image, size), min(sides) < size, sides)


def _hash_file(file: int) -> str:
    os.lseek(file, 0, os.SEEK_SET)
    with open(file, "rb", closefd=False) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def least_side(path: Path) -> int | None:
    """The shorter side of the picture in a file, or None where there is none; nothing is decoded."""
    try:
        with os.fdopen(os.open(path, FOR_READING), "rb") as stream, Image.open(stream, formats=FORMATS) as image:
            return min(image.size)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError, Image.DecompressionBombWarning):
        return None


def _check_header(image: Image.Image) -> None:
    """Refuse a size that is not worth decoding; nothing is decoded yet."""
    width, height = image.size
    if width * height > MOST_PIXELS:
        raise UnusableError(_too_large())
    if min(width, height) < LEAST_SIZE:
        raise UnusableError(f"{width} × {height} pixels, smaller than {LEAST_SIZE}")


def _check_scans(image: Image.Image, stream: BinaryIO) -> None:
    """A JPEG of a few bytes a scan could keep its reader busy for days."""
    if image.format not in ("JPEG", "MPO"):
        return
    stream.seek(0)
    scans = sum(block.count(b"\xff\xda") for block in iter(lambda: stream.read(1 << 20), b""))
    if scans > MOST_SCANS:
        raise UnusableError(f"over {MOST_SCANS} scans")


def _square(image: Image.Image, size: int) -> NDArray[np.uint8]:
    image.draft(None, (2 * size, 2 * size))  # JPEG only: decode at 1/2, 1/4 or 1/8, still twice what we need
    ImageOps.exif_transpose(image, in_place=True)
    colour = to_rgb(image)
    width, height = colour.size
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    # Cropping inside the resize gives the same square, and no giant strip for a picture of 8 × 100,000.
    square = colour.resize((size, size), Image.Resampling.BICUBIC, box=(left, top, left + side, top + side))
    return np.ascontiguousarray(np.asarray(square).transpose(2, 0, 1))


def to_rgb(image: Image.Image) -> Image.Image:
    """Any mode → RGB; what is transparent becomes white, since the colour beneath it means nothing."""
    if image.mode.startswith("I"):  # 16 bits: Pillow's own conversion would clip at 255
        deep = np.asarray(image).clip(0, 65_535).astype(np.uint32)
        deep += 128
        deep //= 257
        return Image.fromarray(deep.astype(np.uint8)).convert("RGB")
    if not image.has_transparency_data:
        return image.convert("RGB")
    layer = image if image.mode == "RGBA" else image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
