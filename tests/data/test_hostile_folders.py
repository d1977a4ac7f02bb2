"""Folders out to do harm: pipes, devices, loops, odd names and what may not be read."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hostile import saved, within

from hardpair.data.cache import read_folder
from hardpair.errors import UserError

Paint = Callable[..., Path]
OTHER = "not a JPEG, PNG, WebP, BMP or GIF image"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_folder_of_pipes_devices_and_loops(root: Path, paint: Paint, monkeypatch: pytest.MonkeyPatch) -> None:
    paint("fine.png")
    os.mkfifo(root / "pipe.jpg")
    for name, target in {
        "device.jpg": "/dev/zero",
        "kernel.jpg": "/proc/self/status",
        "loop.jpg": "loop.jpg",
        "to-pipe.jpg": "pipe.jpg",
        "nowhere.jpg": "nowhere",
        "round/round": "..",
        "folder.jpg": ".",
    }.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).symlink_to(target)
    (root / "round/two").symlink_to("two")
    with within(10):
        images = read_folder(root, "train", 16, skip_broken=1.0)
    assert images.files == ("fine.png",)
    names = sorted(line.split(":")[0] for line in images.skipped)
    assert names == ["device.jpg", "kernel.jpg", "loop.jpg", "nowhere.jpg", "pipe.jpg", "to-pipe.jpg"]


ODD_NAMES = [
    b"new\nline.jpg",
    b"\x1b[31mred.jpg",
    b"\xff\xfe\x80.jpg",
    b"-rf.jpg",
    b"a;touch x.jpg",
    b"\xe2\x80\xae.jpg",
]


def test_odd_names_are_read_and_printed_safely(root: Path, paint: Paint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    for name in ODD_NAMES:
        Path(os.fsdecode(name)).write_bytes(saved("PNG"))
        Path(os.fsdecode(b"bad" + name)).write_bytes(b"rubbish")
    images = read_folder(root, "train", 16, skip_broken=1.0)
    assert sorted(images.files) == sorted(map(os.fsdecode, ODD_NAMES))
    assert len(images.skipped) == len(ODD_NAMES)
    assert all(line.isprintable() and line.startswith("bad") for line in images.skipped)
    assert len(list(root.iterdir())) == 2 * len(ODD_NAMES), "no name was taken for a command"


@pytest.mark.parametrize("name", [b"\xff\xfe", b"a\nb", b"\x1b]0;title\x07"])
def test_odd_names_of_folders_are_printed_safely(root: Path, paint: Paint, name: bytes) -> None:
    odd = root / os.fsdecode(name)
    odd.mkdir()
    for split in ("train", "test"):
        with pytest.raises(UserError) as caught:
            read_folder(odd, split, 16)
        assert str(caught.value).isprintable()
    (odd / "a.png").write_bytes(saved("PNG"))
    assert read_folder(odd, "train", 16).name.isprintable()


@contextmanager
def as_somebody() -> Iterator[None]:
    """Root may read everything, so for a moment the tests are not root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no users here")
def test_files_and_folders_that_may_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders let nobody else in
        root = Path(name)
        root.chmod(0o755)
        (root / "a.png").write_bytes(saved("PNG"))
        (root / "b.png").write_bytes(saved("PNG"))
        (root / "b.png").chmod(0)
        with as_somebody():
            assert read_folder(root, "train", 16, skip_broken=1.0).skipped == ("b.png: no permission to read it",)
        (root / "closed").mkdir(0)
        with as_somebody(), pytest.raises(UserError, match=r"closed: cannot be read \(Permission denied\)"):
            read_folder(root, "train", 16, skip_broken=1.0)
