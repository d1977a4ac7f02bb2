import errno
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hostile import largest_file

from hardpair.data.cache import cache_folder
from hardpair.data.folder import read_folder

Paint = Callable[..., Path]


@pytest.fixture
def pictures(root: Path, paint: Paint) -> Path:
    for k in range(20):
        paint(f"{k:02}.png", (10 * k, 0, 0), size=(16, 16))
    (root / "07.png").write_bytes(b"rubbish")
    return root


def reds(root: Path) -> list[int]:
    images = read_folder(root, "train", 16)
    assert images.skipped == ("07.png: not a JPEG, PNG, WebP, BMP or GIF image",)
    return images.pixels[:, 0, 0, 0].tolist()


EXPECTED = [10 * k for k in range(20) if k != 7]


@pytest.fixture
def no_decoding(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def forbid() -> None:
        def fail(*_: object) -> None:
            raise AssertionError("decoded again")

        monkeypatch.setattr("hardpair.data.folder.decode_file", fail)

    return forbid


def test_second_read_decodes_nothing(pictures: Path, cache: Path, no_decoding: Callable[[], None]) -> None:
    assert reds(pictures) == EXPECTED
    assert sorted(path.suffix for path in cache.iterdir()) == [".json", ".npy"]
    no_decoding()
    assert reds(pictures) == EXPECTED
    with pytest.raises(AssertionError, match="decoded again"):
        read_folder(pictures, "train", 24)


def test_writing_to_the_pixels_leaves_the_cache_alone(pictures: Path) -> None:
    images = read_folder(pictures, "train", 16)
    images.pixels.zero_()
    assert reds(pictures) == EXPECTED
    assert torch.equal(images.pixels, torch.zeros_like(images.pixels))


def test_a_changed_file_is_seen(pictures: Path, paint: Paint) -> None:
    assert reds(pictures) == EXPECTED
    before = (pictures / "00.png").stat()
    paint("00.png", (99, 0, 0), size=(20, 20))
    os.utime(pictures / "00.png", ns=(before.st_atime_ns, before.st_mtime_ns))  # the length alone must do
    assert (pictures / "00.png").stat().st_size != before.st_size
    assert reds(pictures)[0] == 99


def test_a_file_changed_in_place_is_seen_by_its_time(root: Path, paint: Paint) -> None:
    path = paint("a.bmp", (1, 0, 0))
    before = path.stat()
    assert read_folder(root, "train", 8).pixels[0, 0, 0, 0] == 1
    paint("a.bmp", (2, 0, 0))
    assert path.stat().st_size == before.st_size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert read_folder(root, "train", 8).pixels[0, 0, 0, 0] == 2


def test_a_renamed_file_is_seen(pictures: Path) -> None:
    assert reds(pictures) == EXPECTED
    (pictures / "00.png").rename(pictures / "99.png")
    assert reds(pictures) == [*EXPECTED[1:], 0]


def cut_pixels(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def empty_pixels(path: Path) -> None:
    path.write_bytes(b"")


def other_shape(path: Path) -> None:
    np.save(path, np.zeros((20, 3, 8, 32), np.uint8))


def other_type(path: Path) -> None:
    np.save(path, np.zeros((20, 3, 16, 16), np.int8))


def remove_pixels(path: Path) -> None:
    path.unlink()


def cut_facts(path: Path) -> None:
    facts = path.with_suffix(".json")
    facts.write_text(facts.read_text()[:-5])


def empty_facts(path: Path) -> None:
    path.with_suffix(".json").write_text("[]")


def wrong_rows(path: Path) -> None:
    facts = json.loads(path.with_suffix(".json").read_text())
    facts["rows"][0] = 500
    path.with_suffix(".json").write_text(json.dumps(facts))


DAMAGES = [
    cut_pixels,
    empty_pixels,
    other_shape,
    other_type,
    remove_pixels,
    cut_facts,
    empty_facts,
    wrong_rows,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_entry_is_rebuilt(
    pictures: Path, cache: Path, damage: Callable[[Path], None], no_decoding: Callable[[], None]
) -> None:
    assert reds(pictures) == EXPECTED
    damage(next(cache.glob("*.npy")) if any(cache.glob("*.npy")) else cache)
    assert reds(pictures) == EXPECTED
    no_decoding()
    assert reds(pictures) == EXPECTED, "the entry is whole again"


def test_unwritable_cache_does_not_stop_the_run(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HARDPAIR_CACHE", str(tmp_path / "file" / "below"))
    with caplog.at_level(logging.WARNING, "hardpair"):
        assert reds(pictures) == EXPECTED
    assert "cannot be written" in caplog.text


def test_no_room_for_the_pixels(pictures: Path, cache: Path) -> None:
    with largest_file(4096):
        assert reds(pictures) == EXPECTED
    assert list(cache.iterdir()) == []


def test_full_disk_is_noticed_before_the_first_image(
    pictures: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("hardpair.data.cache.os.posix_fallocate", full)
    assert reds(pictures) == EXPECTED
    assert list(cache.iterdir()) == []


def test_failure_at_the_last_step_keeps_the_pixels(
    pictures: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("hardpair.data.cache.Path.replace", fail)
    assert reds(pictures) == EXPECTED
    assert list(cache.iterdir()) == []


def test_home_is_used_without_the_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HARDPAIR_CACHE", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "hardpair"


def test_equal_names_sizes_and_times_in_two_folders_are_not_mixed_up(root: Path, paint: Paint) -> None:
    for folder, red in (("one", 10), ("two", 200)):
        file = paint(f"{folder}/a.bmp", (red, 0, 0), size=(16, 16))
        os.utime(file, ns=(10**9, 10**9))
    first, second = (read_folder(root / folder, "train", 16).pixels for folder in ("one", "two"))
    assert (int(first[0, 0, 0, 0]), int(second[0, 0, 0, 0])) == (10, 200)
