"""The content of a file as an array that is read as it is used, and that all processes share."""

import math
import mmap
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", bound=np.generic)
# Linux sets memory aside for a map that may be written to, and refuses one larger than all it has; of ours hardly a
# page ever is. Python knows the flag by name only from 3.13 on.
NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)


def map_file(path: Path, shape: tuple[int, ...], kind: type[T], *, offset: int = 0) -> NDArray[T]:
    """The array that begins at an offset; ValueError where the file is shorter.

    What the caller changes stays in its own memory and never reaches the file: torch dislikes read-only arrays.
    """
    count = math.prod(shape)
    with path.open("rb") as file:
        pages = mmap.mmap(
            file.fileno(),
            offset + count * np.dtype(kind).itemsize,
            flags=mmap.MAP_PRIVATE | NO_RESERVE,
            prot=mmap.PROT_READ | mmap.PROT_WRITE,
        )
    return np.frombuffer(pages, dtype=kind, count=count, offset=offset).reshape(shape)


@contextmanager
def row_writer(block: NDArray[np.uint8]) -> Iterator[Callable[[int, NDArray[np.uint8]], None]]:
    """Yield `write(row, values)`, to be called by any thread in place of `block[row] = values`.

    Into a mapped file it takes half the time, since the system need not stop at each page of 4 kB that is touched for
    the first time. What was written is in the map at once.
    """
    pages: object = block.base
    if not (isinstance(block, np.memmap) and isinstance(pages, mmap.mmap) and block.filename):  # not a whole file
        yield block.__setitem__
        return
    with Path(block.filename).open("r+b", buffering=0) as file:

        def write(row: int, values: NDArray[np.uint8]) -> None:
            left, place = values.data.cast("B"), block.offset + row * values.nbytes
            while left:
                written = os.pwrite(file.fileno(), left, place)
                left, place = left[written:], place + written

        yield write
