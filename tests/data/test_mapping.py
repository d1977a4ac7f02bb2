"""Files as arrays, also those that no memory could hold."""

import os
from pathlib import Path

import numpy as np
import pytest

from hardpair.data.mapping import map_file


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
