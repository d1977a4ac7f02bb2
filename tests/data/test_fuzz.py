"""Pictures with random damage: each is read or left out with a reason; none crashes, hangs or fills the memory."""

from pathlib import Path

import pytest
from fuzzed_images import read_watched, write_folder


@pytest.mark.slow
def test_200_damaged_pictures(tmp_path: Path) -> None:
    """`make soak` takes 2,000."""
    write_folder(tmp_path / "pictures", count=200, seed=0)
    found = read_watched(tmp_path / "pictures", tmp_path / "cache", seconds=120)
    assert found["read"] + len(found["skipped"]) == 201
    assert 20 < found["read"] < 180, "some damage can be seen past, some cannot"
    assert all(line.isprintable() and len(line) < 150 for line in found["skipped"])
    assert found["grown_mb"] < 500
