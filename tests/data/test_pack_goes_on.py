"""Packing that stopped, here for want of room, goes on where it was, and only if all is as it was left."""

import errno
from collections.abc import Callable
from io import FileIO
from pathlib import Path

import pytest
from hostile import largest_file
from packing import FILES, PART, SIZE, as_if_nothing_had_been

from hardpair.data.packed import journal
from hardpair.data.packed.writing import pack
from hardpair.errors import UserError

Paint = Callable[..., Path]


def stop_after_two_parts(pictures: Path, target: Path) -> Path:
    """A disk that is full then; returns the journal."""
    room = 2 * PART * 3 * SIZE**2 + 100  # two parts and a bit, with the room that the broken file leaves
    with largest_file(room), pytest.raises(UserError, match=r"train\.pixels: cannot be written \(File too large\)"):
        pack(pictures, target, SIZE)
    return target / "packing.jsonl"


def test_a_full_disk_is_one_line_and_no_loss(pictures: Path, target: Path, decoded: list[str]) -> None:
    stop_after_two_parts(pictures, target)
    decoded.clear()
    pack(pictures, target, SIZE)
    assert len(decoded) == FILES - 2 * PART
    assert as_if_nothing_had_been(pictures, target)


def test_a_disk_too_full_for_the_journal(
    pictures: Path, target: Path, decoded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its line is written in part, and so counts as nothing."""
    write, calls = journal.write_whole, iter(["heading", "part", "full"])

    def fill_up(file: FileIO, content: bytes) -> None:
        if next(calls) != "full":
            write(file, content)
            return
        write(file, content[:20])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(journal, "write_whole", fill_up)
    with pytest.raises(UserError, match=r"cannot be written \(No space left"):
        pack(pictures, target, SIZE)
    monkeypatch.setattr(journal, "write_whole", write)
    decoded.clear()
    pack(pictures, target, SIZE)
    assert len(decoded) == FILES - PART
    assert as_if_nothing_had_been(pictures, target)


def test_it_goes_on_only_with_what_it_was_begun_with(
    pictures: Path, target: Path, paint: Paint, tmp_path: Path
) -> None:
    stop_after_two_parts(pictures, target)
    with pytest.raises(UserError, match="packed: was begun at 8 px; delete it"):
        pack(pictures, target, 16)
    (tmp_path / "others").mkdir()
    paint("../others/1.png")
    with pytest.raises(UserError, match=r"was begun of .*pictures at 8 px; delete it"):
        pack(tmp_path / "others", target, SIZE)
    paint("train/a/zz.png")
    with pytest.raises(UserError, match="was begun before the pictures changed; delete it"):
        pack(pictures, target, SIZE)


@pytest.mark.parametrize(
    "line",
    [b"", b"[]", b"{}", b"\xff", b"[" * 5000, b'{"split": "dev", "files": 1}', b'{"split": "train", "files": "x"}'],
)
def test_a_damaged_journal_is_one_line(pictures: Path, target: Path, line: bytes) -> None:
    file = stop_after_two_parts(pictures, target)
    lines = file.read_bytes().split(b"\n")
    file.write_bytes(b"\n".join([lines[0], line, *lines[2:]]))
    with pytest.raises(UserError, match=r"packing\.jsonl: cannot be read .*; delete") as caught:
        pack(pictures, target, SIZE)
    assert len(str(caught.value)) < 600
    file.write_bytes(b"\n".join([line, *lines[1:]]))
    with pytest.raises(UserError, match=r"packing\.jsonl: cannot be read .*; delete"):
        pack(pictures, target, SIZE)


def test_pixels_that_got_lost_are_noticed(pictures: Path, target: Path) -> None:
    stop_after_two_parts(pictures, target)
    with (target / "train.pixels").open("r+b") as file:
        file.truncate(100)
    with pytest.raises(UserError, match=r"train\.pixels: is shorter than it was left; delete"):
        pack(pictures, target, SIZE)
