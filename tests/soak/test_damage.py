"""The long form of what tests/train and tests/data do in short: `make soak`."""

from pathlib import Path

import pytest
from corruptions import check_fallback
from fuzzed_images import read_watched, write_folder
from PIL import Image

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_200_random_damages_of_a_checkpoint_are_noticed(tmp_path: Path, seed: int) -> None:
    check_fallback(tmp_path, trials=200, seed=seed)


def test_2000_damaged_pictures(tmp_path: Path) -> None:
    write_folder(tmp_path / "pictures", count=2000, seed=1)
    found = read_watched(tmp_path / "pictures", tmp_path / "cache", seconds=600)
    print(found["read"], "read,", len(found["skipped"]), "left out,", f"{found['grown_mb']:.0f} MB more at the peak")
    assert found["read"] + len(found["skipped"]) == 2001
    assert all(line.isprintable() and len(line) < 150 for line in found["skipped"])
    assert found["grown_mb"] < 500


def test_eight_threads_with_a_giant_each_share_the_room(tmp_path: Path) -> None:
    """88 megapixels take 500 MB while they are decoded; eight at once would take 4 GB."""
    (tmp_path / "pictures").mkdir()
    Image.new("1", (9_400, 9_400), 1).save(tmp_path / "pictures" / "0.png")
    content = (tmp_path / "pictures" / "0.png").read_bytes()
    for k in range(1, 8):
        (tmp_path / "pictures" / f"{k}.png").write_bytes(content)
    found = read_watched(tmp_path / "pictures", tmp_path / "cache", seconds=600)
    assert found["read"] == 8
    assert found["grown_mb"] < 1200
