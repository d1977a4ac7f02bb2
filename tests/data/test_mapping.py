"""Files as arrays, also those that no memory could hold."""

import ctypes
import mmap
import os
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.lib.format import open_memmap

from hardpair.data.mapping import map_file, read_ahead, row_writer


def test_what_is_changed_stays_in_memory(tmp_path: Path) -> None:
    file = tmp_path / "numbers"
    np.arange(12, dtype=np.int64).tofile(file)
    found = map_file(file, (2, 5), np.int64, offset=16)
    assert found.tolist() == [[2, 3, 4, 5, 6], [7, 8, 9, 10, 11]]
    found[0, 0] = 99
    assert np.fromfile(file, dtype=np.int64)[2] == 2


def test_a_file_that_is_too_short(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(bytes(10))
    with pytest.raises(ValueError, match="length"):
        map_file(tmp_path / "short", (11,), np.uint8)


def test_a_file_larger_than_the_memory(tmp_path: Path) -> None:
    """Linux refuses a plain copy-on-write map of it; a cache or a packed set of that size must open nevertheless."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    length = 4 * memory
    with (tmp_path / "sparse").open("wb") as file:
        file.seek(length - 1)
        file.write(b"\7")  # the disk keeps only this
    found = map_file(tmp_path / "sparse", (length,), np.uint8)
    assert (found[0], found[length // 2], found[-1]) == (0, 0, 7)


def test_rows_are_written_into_the_file_and_seen_in_the_map(tmp_path: Path) -> None:
    block = open_memmap(tmp_path / "rows.npy", mode="w+", dtype=np.uint8, shape=(4, 2, 3))
    rows = np.arange(24, dtype=np.uint8).reshape(4, 2, 3)
    with row_writer(block) as write:
        for row in (2, 0, 3, 1):
            write(row, rows[row])
    assert np.array_equal(block, rows)
    assert np.array_equal(np.load(tmp_path / "rows.npy"), rows)


@pytest.mark.parametrize("mapped", [True, False])
def test_rows_of_other_arrays_are_written_as_ever(tmp_path: Path, mapped: bool) -> None:
    whole = open_memmap(tmp_path / "rows.npy", mode="w+", dtype=np.uint8, shape=(5, 3)) if mapped else np.zeros((5, 3))
    block = whole[2:]  # which does not begin where the file does
    with row_writer(block) as write:
        write(1, np.array([7, 8, 9], np.uint8))
    assert whole[3].tolist() == [7, 8, 9]
    assert whole.sum() == 24


def test_a_row_is_written_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr("os.pwrite", lambda file, content, place: pwrite(file, content[:2], place))
    block = open_memmap(tmp_path / "rows.npy", mode="w+", dtype=np.uint8, shape=(2, 5))
    with row_writer(block) as write:
        write(1, np.arange(1, 6, dtype=np.uint8))
    assert block.tolist() == [[0] * 5, [1, 2, 3, 4, 5]]


def in_memory(row: torch.Tensor) -> bool:
    """Whether the system has all pages of it at hand."""
    start = row.data_ptr() // mmap.PAGESIZE * mmap.PAGESIZE
    length = row.data_ptr() + row.nbytes - start
    pages = (ctypes.c_ubyte * -(-length // mmap.PAGESIZE))()
    assert ctypes.CDLL(None).mincore(ctypes.c_void_p(start), ctypes.c_size_t(length), pages) == 0
    return all(page & 1 for page in pages)


def test_rows_are_read_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, before any is touched, and no others."""
    file, rows = tmp_path / "rows", torch.tensor([700, 3, 250])
    content = np.random.default_rng(0).integers(0, 256, (1000, 20_000), dtype=np.uint8)
    content.tofile(file)
    block = torch.from_numpy(map_file(file, content.shape, np.uint8))
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # a file system in memory keeps it all the same
    asked, advise = [], ctypes.CDLL(None).madvise

    class Library:
        def __init__(self, name: None) -> None: ...

        def madvise(self, start: ctypes.c_void_p, length: ctypes.c_size_t, advice: int) -> None:
            assert advise(start, length, advice) == 0
            asked.append((start.value, length.value))

    monkeypatch.setattr("ctypes.CDLL", Library)
    read_ahead(block, rows)
    monkeypatch.undo()
    for (start, length), row in zip(asked, rows.tolist(), strict=True):
        own = block[row]
        assert own.data_ptr() - mmap.PAGESIZE < start <= own.data_ptr()
        assert start % mmap.PAGESIZE == 0
        assert start + length == own.data_ptr() + own.nbytes
    until = time.monotonic() + 20
    while time.monotonic() < until and not all(in_memory(block[row]) for row in rows):
        time.sleep(0.01)
    assert all(in_memory(block[row]) for row in rows)
    assert np.array_equal(block[rows], content[rows])


def test_other_memory_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", None)  # nothing is asked of the system
    read_ahead(torch.zeros(4, 5000), torch.tensor([1, 2]))
