"""The content of a file as an array that is read as it is used, and that all processes share."""

import ctypes
import math
import mmap
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

T = TypeVar("T", bound=np.generic)
# Linux sets memory aside for a map that may be written to, and refuses one larger than all it has; of ours hardly a
# page ever is. Python knows the flag by name only from 3.13 on.
NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)
_MAPPED: list[range] = []  # the addresses of all maps so far; those of closed ones do no harm, since advice is free


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
    array = np.frombuffer(pages, dtype=kind, count=count, offset=offset)
    _MAPPED.append(range(array.ctypes.data, array.ctypes.data + array.nbytes))
    return array.reshape(shape)


def read_ahead(block: Tensor, rows: Tensor) -> None:
    """Have the system read these rows of a mapped block (N, ...) now, all at once; any other block is left alone.

    As they are touched they would be read one by one, and a disk can do much at a time: 256 images of 96 px that are
    not in memory yet took 1.6 s that way and .03 s this way.
    """
    first, stride = block.data_ptr(), block.stride(0) * block.element_size()
    if not hasattr(mmap, "MADV_WILLNEED") or not any(first in span for span in _MAPPED):
        return
    advise = ctypes.CDLL(None).madvise
    for row in rows.tolist():
        start = first + row * stride
        page = start - start % mmap.PAGESIZE  # what is advised begins with a page
        advise(ctypes.c_void_p(page), ctypes.c_size_t(start + stride - page), mmap.MADV_WILLNEED)


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
    # Linux lets one thread at a time write to a file, and the others wait for it busily: here they sleep.
    one_at_a_time = Lock()
    with Path(block.filename).open("r+b", buffering=0) as file:

        def write(row: int, values: NDArray[np.uint8]) -> None:
            left, place = values.data.cast("B"), block.offset + row * values.nbytes
            with one_at_a_time:
                while left:
                    written = os.pwrite(file.fileno(), left, place)
                    left, place = left[written:], place + written

        yield write
