"""Folders of pictures, decoded once and kept; whatever happens to the cache, the images are right."""

import errno
import hashlib
import json
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hostile import DEEP, STEEP, largest_file, trap

from hardpair.data.cache import cache_folder, discard, open_known, read_folder, reserve

Paint = Callable[..., Path]
FILES = ("packed.json", "train.pixels", "train.names", "quarantine.txt")
EXPECTED = [10 * k for k in range(20) if k != 7]


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


def test_second_read_decodes_nothing(pictures: Path, cache: Path, no_decoding: Callable[[], None]) -> None:
    assert reds(pictures) == EXPECTED
    [entry] = cache.iterdir()
    assert sorted(path.name for path in entry.iterdir()) == sorted([*FILES, "duplicates.txt"])
    no_decoding()
    assert reds(pictures) == EXPECTED
    with pytest.raises(AssertionError, match="decoded again"):
        read_folder(pictures, "train", 24)


def test_an_interrupted_reading_goes_on(
    pictures: Path, monkeypatch: pytest.MonkeyPatch, decoded: list[str], cache: Path
) -> None:
    monkeypatch.setattr("hardpair.data.decode.AT_ONCE", 5)
    with monkeypatch.context() as patch:

        def stop(*_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr("hardpair.data.fill.publish", stop)
        with pytest.raises(KeyboardInterrupt):
            read_folder(pictures, "train", 16)
    assert len(decoded) == 20
    assert reds(pictures) == EXPECTED
    assert len(decoded) == 20


def test_two_at_a_time_decode_once(pictures: Path, decoded: list[str]) -> None:
    found: list[list[int]] = []
    threads = [threading.Thread(target=lambda: found.append(reds(pictures))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [EXPECTED] * 4
    assert len(decoded) == 20


def test_an_entry_of_an_earlier_version_is_left_alone(pictures: Path, cache: Path) -> None:
    cache.mkdir()
    np.save(cache / f"{'0' * 64}.npy", np.zeros(5))
    assert reds(pictures) == EXPECTED


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


def test_equal_names_sizes_and_times_in_two_folders_are_not_mixed_up(root: Path, paint: Paint) -> None:
    for folder, red in (("one", 10), ("two", 200)):
        file = paint(f"{folder}/a.bmp", (red, 0, 0), size=(16, 16))
        os.utime(file, ns=(10**9, 10**9))
    first, second = (read_folder(root / folder, "train", 16).pixels for folder in ("one", "two"))
    assert (int(first[0, 0, 0, 0]), int(second[0, 0, 0, 0])) == (10, 200)


def alter_index(entry: Path, change: Callable[[dict[str, object]], object]) -> None:
    content = json.loads((entry / "packed.json").read_text())
    change(content)
    (entry / "packed.json").write_text(json.dumps(content))


def other_names(entry: Path) -> None:
    """With their true hash, as only somebody who means harm would write them."""
    names = "\0".join(f"{k}.png" for k in range(19)).encode()
    (entry / "train.names").write_bytes(names)
    alter_index(entry, lambda content: content["splits"]["train"].update(names=hashlib.sha256(names).hexdigest()))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "index cut": lambda entry: (entry / "packed.json").write_text((entry / "packed.json").read_text()[:-5]),
    "index of nothing": lambda entry: (entry / "packed.json").write_text("[]"),
    "index deep": lambda entry: (entry / "packed.json").write_text(DEEP),
    "index steep": lambda entry: (entry / "packed.json").write_text(STEEP),
    "another size": lambda entry: alter_index(entry, lambda content: content.update(size=12)),
    "another split": lambda entry: alter_index(entry, lambda content: content.update(splits={"test": None})),
    "names of other files": other_names,
    **{
        f"{name} cut": lambda entry, name=name: (entry / name).write_bytes((entry / name).read_bytes()[:-1])
        for name in FILES
    },
    **{f"{name} empty": lambda entry, name=name: (entry / name).write_bytes(b"") for name in FILES},
    **{f"{name} gone": lambda entry, name=name: (entry / name).unlink() for name in FILES},
}


@pytest.mark.parametrize("case", DAMAGES)
def test_a_damaged_entry_is_rebuilt(pictures: Path, cache: Path, case: str, no_decoding: Callable[[], None]) -> None:
    assert reds(pictures) == EXPECTED
    DAMAGES[case](next(cache.iterdir()))
    assert reds(pictures) == EXPECTED
    no_decoding()
    assert reds(pictures) == EXPECTED, "the entry is whole again"


@pytest.mark.parametrize("name", [*FILES, "packing.jsonl"])
def test_a_pickle_runs_no_code(pictures: Path, cache: Path, tmp_path: Path, name: str) -> None:
    content, canary = trap(tmp_path)
    assert reds(pictures) == EXPECTED
    entry = next(cache.iterdir())
    (entry / name).write_bytes(content)
    if name == "packing.jsonl":
        (entry / "packed.json").unlink()
    assert reds(pictures) == EXPECTED
    assert not canary.exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("name", [*FILES, "packing.jsonl"])
def test_pipes_are_not_waited_for(pictures: Path, cache: Path, name: str) -> None:
    assert reds(pictures) == EXPECTED
    entry = next(cache.iterdir())
    (entry / name).unlink(missing_ok=True)
    os.mkfifo(entry / name)
    if name == "packing.jsonl":
        (entry / "packed.json").unlink()
    assert reds(pictures) == EXPECTED


def test_unwritable_cache_does_not_stop_the_run(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    whole = read_folder(pictures, "train", 16)
    (tmp_path / "file").touch()
    monkeypatch.setenv("HARDPAIR_CACHE", str(tmp_path / "file" / "below"))
    with caplog.at_level(logging.WARNING, "hardpair"):
        assert reds(pictures) == EXPECTED
    assert "cannot be written" in caplog.text
    images = read_folder(pictures, "train", 16)
    assert (images.facts(), images.files) == (whole.facts(), whole.files)


def test_no_room_for_the_pixels(pictures: Path, cache: Path) -> None:
    with largest_file(4096):
        assert reds(pictures) == EXPECTED
    assert list(cache.iterdir()) == []


def test_a_full_disk_is_noticed_before_the_first_image(
    pictures: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, decoded: list[str]
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 20 * 3 * 16**2 - 1}))
    assert reds(pictures) == EXPECTED
    assert len(decoded) == 20
    assert list(cache.iterdir()) == []


def test_failure_at_the_last_step_keeps_the_images(
    pictures: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("hardpair.files.Path.replace", fail)
    assert reds(pictures) == EXPECTED
    assert list(cache.iterdir()) == []


def test_home_is_used_without_the_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HARDPAIR_CACHE", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "hardpair"


def test_no_home_does_not_stop_the_run(pictures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setenv("HARDPAIR_CACHE", "")
    monkeypatch.setattr("hardpair.data.cache.Path.home", nowhere)
    assert reds(pictures) == EXPECTED


def test_room_for_an_array_is_claimed_at_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk, writing to a mapped file would kill the process."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("hardpair.data.cache.os.posix_fallocate", full)
    block, part = reserve(cache / "features.npy", (5, 2), np.float32, lost="it is lost")
    assert (block.shape, part, list(cache.iterdir())) == ((5, 2), None, [])


def test_arrays_are_known_by_their_header_and_length(cache: Path) -> None:
    file = cache / "features.npy"
    block, part = reserve(file, (5, 2), np.float32, lost="it is lost")
    assert part is not None
    block[:] = 7
    part.replace(file)
    discard(part)
    found = open_known(file, (5, 2), np.float32)
    assert found is not None
    assert found.tolist() == [[7, 7]] * 5
    assert open_known(file, (2, 5), np.float32) is None
    assert open_known(file, (5, 2), np.int32) is None
