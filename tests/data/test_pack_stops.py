"""Packing that is stopped at any moment loses one part at most: real processes, real signals, a disk that is full."""

import errno
import itertools
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from io import FileIO
from pathlib import Path

import pytest
from hostile import largest_file
from together import SERVER

from hardpair import cli
from hardpair.data import folder, open_images
from hardpair.data.packed import journal, publishing, writing
from hardpair.data.packed.writing import pack
from hardpair.errors import UserError

Paint = Callable[..., Path]
FILES, PART, SIZE = 30, 4, 8
KILLED = -signal.SIGKILL


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardpair.data.folder.AT_ONCE", PART)


@pytest.fixture
def pictures(root: Path, paint: Paint) -> Path:
    """Thirty to train on, one of them broken, and ten to test with."""
    for k in range(FILES):
        paint(f"train/{'ab'[k % 2]}/{k:02}.png", (8 * k, k, 255 - k))
    for k in range(10):
        paint(f"test/a/{k}.png", (k, 20 * k, 100))
    (root / "train/a/02.png").write_bytes(b"rubbish")
    return root


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "packed"


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all files that are decoded from now on."""
    decode, names = folder.decode_file, []

    def spy(path: Path, size: int) -> object:
        names.append(path.name)
        return decode(path, size)

    monkeypatch.setattr(folder, "decode_file", spy)
    return names


def as_if_nothing_had_been(pictures: Path, target: Path) -> bool:
    """Every file, to the byte, but for the time in the index."""
    undisturbed = target.with_name("undisturbed")
    index = pack(pictures, undisturbed, SIZE)
    names = sorted(path.name for path in undisturbed.iterdir())
    assert sorted(path.name for path in target.iterdir()) == names
    assert pack(pictures, target, SIZE).splits == index.splits
    return all(
        (target / name).read_bytes() == (undisturbed / name).read_bytes() for name in names if "json" not in name
    )


def pack_slowly(pictures: Path, target: Path, pause: float) -> None:
    """In a process of its own, with time to be killed in."""
    decode = folder.decode_file

    def slow(path: Path, size: int) -> object:
        time.sleep(pause)
        return decode(path, size)

    folder.decode_file, folder.AT_ONCE = slow, PART
    sys.argv = ["hardpair", "pack", str(pictures), str(target), "--size", str(SIZE)]
    cli.main()


def lines_of(target: Path) -> int:
    file = target / "packing.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def nothing(*_: object) -> None:
    pass


def half(file: FileIO, content: bytes | memoryview) -> None:
    whole = memoryview(content).cast("B")
    file.write(whole[: len(whole) // 2])


def leave_a_draft(folder: Path, _: object) -> None:
    (folder / ".packed.json.7.tmp").write_text("{")


# Which function is the last to be called, at which call, and what of it is still done.
MOMENTS: dict[str, tuple[object, str, int, Callable[..., object]]] = {
    "inside a part": (writing, "write_whole", 2 * PART + 1, half),  # of which the first lacks one image
    "pixels written": (writing.os, "fsync", 3, nothing),
    "half a line": (journal, "write_whole", 4, half),  # the first is the heading
    "between parts": (journal.Journal, "add", 3, journal.Journal.add),
    "half the index": (publishing, "write_index", 1, leave_a_draft),
    "all but the end": (publishing, "write_index", 1, publishing.write_index),
}


def die_at(pictures: Path, target: Path, moment: str) -> None:
    """Pack, and be killed in the third part or at the end."""
    place, name, count, last_act = MOMENTS[moment]
    real, calls = getattr(place, name), itertools.count(1)

    def act(*arguments: object) -> None:
        if next(calls) == count:
            last_act(*arguments)
            die()
        real(*arguments)

    setattr(place, name, act)
    folder.AT_ONCE = PART
    pack(pictures, target, SIZE)


@pytest.mark.parametrize(
    ("moment", "lost"),
    [
        ("inside a part", FILES + 10 - 2 * PART),
        ("pixels written", FILES + 10 - 2 * PART),
        ("half a line", FILES + 10 - 2 * PART),
        ("between parts", FILES + 10 - 3 * PART),
        ("half the index", 0),
        ("all but the end", 0),
    ],
)
def test_killed(pictures: Path, target: Path, decoded: list[str], moment: str, lost: int) -> None:
    life = SERVER.Process(target=die_at, args=(pictures, target, moment))
    life.start()
    life.join()
    assert life.exitcode == KILLED
    if moment != "all but the end":
        with pytest.raises(UserError, match="is not packed to the end; go on with the hardpair pack command"):
            open_images(str(target), "train", size=SIZE, root=target)
    pack(pictures, target, SIZE)
    assert len(decoded) == lost
    assert as_if_nothing_had_been(pictures, target)


def test_killed_at_random_moments(pictures: Path, target: Path, decoded: list[str]) -> None:
    chance = random.Random(0)
    for _ in range(4):
        life = SERVER.Process(target=pack_slowly, args=(pictures, target, 0.02))
        life.start()
        before = max(lines_of(target), 1)  # the heading
        while life.is_alive() and lines_of(target) <= before:
            time.sleep(0.002)
        time.sleep(chance.uniform(0, 0.03))
        done = lines_of(target)
        life.kill()
        life.join()
        assert life.exitcode == KILLED, "it ended before it was killed"
        assert lines_of(target) >= done
    done = lines_of(target) - 1
    pack(pictures, target, SIZE)
    assert len(decoded) == FILES + 10 - PART * done
    assert as_if_nothing_had_been(pictures, target)


def test_interrupted_by_the_keyboard(pictures: Path, target: Path) -> None:
    life = SERVER.Process(target=pack_slowly, args=(pictures, target, 0.05))
    life.start()
    while lines_of(target) < 2:
        assert life.is_alive()
        time.sleep(0.005)
    os.kill(life.pid, signal.SIGINT)
    life.join()
    assert life.exitcode == 130
    pack(pictures, target, SIZE)
    assert as_if_nothing_had_been(pictures, target)


def test_a_second_process_is_refused(pictures: Path, target: Path) -> None:
    life = SERVER.Process(target=pack_slowly, args=(pictures, target, 0.1))
    life.start()
    while lines_of(target) < 1:
        assert life.is_alive()
        time.sleep(0.005)
    with pytest.raises(UserError, match="is being packed by another process"):
        pack(pictures, target, SIZE)
    life.kill()
    life.join()


def test_a_full_disk_is_one_line_and_no_loss(pictures: Path, target: Path, decoded: list[str]) -> None:
    room = 2 * PART * 3 * SIZE**2 + 100  # two parts and a bit, with the room that the broken file leaves
    with largest_file(room), pytest.raises(UserError, match=r"train\.pixels: cannot be written \(File too large\)"):
        pack(pictures, target, SIZE)
    decoded.clear()
    pack(pictures, target, SIZE)
    assert len(decoded) == FILES + 10 - 2 * PART
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
    assert len(decoded) == FILES + 10 - PART
    assert as_if_nothing_had_been(pictures, target)


def stop_after_two_parts(pictures: Path, target: Path) -> Path:
    with largest_file(2 * PART * 3 * SIZE**2 + 100), pytest.raises(UserError, match="cannot be written"):
        pack(pictures, target, SIZE)
    return target / "packing.jsonl"


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
