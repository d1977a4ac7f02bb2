"""Packed folders that somebody else wrote, or that a disk spoiled: one line, no code run, no memory spent."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile import DEEP, STEEP, little_memory, trap, within

from hardpair.data import open_images, outline_images
from hardpair.data.pack import pack
from hardpair.data.store import find_damage
from hardpair.errors import UserError

SIZE, PART = 8, 4
Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def packed(root: Path, paint: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("hardpair.data.decode.AT_ONCE", PART)
    for k in range(22):
        paint(f"train/{'ab'[k % 2]}/{k:02}.png", (k, 2 * k, 3 * k))
        paint(f"test/{'ab'[k % 2]}/{k:02}.png", (3 * k, k, 2))
    (root / "train/a/06.png").write_bytes(b"rubbish")
    pack(root, tmp_path / "packed", SIZE)
    return tmp_path / "packed"


def refusal(packed: Path) -> str:
    """The one line that opening it ends with."""
    with within(10), little_memory(100), pytest.raises(UserError) as caught:
        open_images(str(packed), "train", size=SIZE, root=packed)
    said = str(caught.value)
    assert said.isprintable()
    assert len(said) < 700
    return said


def change(packed: Path, alter: Change) -> None:
    content = json.loads((packed / "packed.json").read_text())
    alter(content)
    (packed / "packed.json").write_text(json.dumps(content))


def set_to(value: object, *path: str | int) -> Change:
    def alter(content: dict[str, Any]) -> None:
        place: Any = content
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return alter


TRAIN = ("splits", "train")
BAD_VALUES = {
    "another file": set_to("something else", "what"),
    "a later version": set_to(2, "version"),
    "no size": lambda content: content.pop("size"),
    "a size that is true": set_to(True, "size"),
    "a size of nothing": set_to(0, "size"),
    "a negative size": set_to(-8, "size"),
    "a broken size": set_to(8.0, "size"),
    "a size in words": set_to("8", "size"),
    "a huge size": set_to(10**9, "size"),
    "no splits": set_to({}, "splits"),
    "splits in a list": set_to(["train"], "splits"),
    "a split of nothing": set_to(None, *TRAIN),
    "a part of minus one": set_to(-1, *TRAIN, "parts", 0, "images"),
    "a part of true": set_to(True, *TRAIN, "parts", 0, "images"),
    "a part without end": set_to(float("inf"), *TRAIN, "parts", 0, "images"),
    "a part of 2**62 images": set_to(2**62, *TRAIN, "parts", 0, "images"),
    "a part of 10**400 images": set_to(10**400, *TRAIN, "parts", 0, "images"),
    "a part that is a list": set_to([4, "0" * 64], *TRAIN, "parts", 0),
    "no parts": set_to([], *TRAIN, "parts"),
    "parts that are text": set_to("parts", *TRAIN, "parts"),
    "no hash": set_to("latest", *TRAIN, "parts", 0, "sha256"),
    "a path for a hash": set_to("../../../etc/passwd", *TRAIN, "names"),
    "hash of another type": set_to(0, *TRAIN, "labels"),
    "classes that are numbers": set_to([1, 2], *TRAIN, "classes"),
    "classes that are text": set_to("ab", *TRAIN, "classes"),
    "skipped without end": set_to(1e300, *TRAIN, "skipped"),
    "a source that is a list": set_to([["a"] * 5] * 5, "source"),
}


@pytest.mark.parametrize("case", BAD_VALUES)
def test_values_that_cannot_be(packed: Path, case: str) -> None:
    change(packed, BAD_VALUES[case])
    assert "packed.json: cannot be read (" in refusal(packed)
    with pytest.raises(UserError, match="cannot be read"):
        outline_images(str(packed), size=SIZE)
    with pytest.raises(UserError, match="cannot be read"):
        find_damage(packed)


def test_a_later_version_is_called_so(packed: Path) -> None:
    change(packed, set_to(2, "version"))
    assert "(this hardpair knows version 1 of packed images, and not 2); pack the pictures again" in refusal(packed)


@pytest.mark.parametrize(
    "content", ["", "[]", "null", "{", DEEP, STEEP, '{"what": [[[["images packed by hardpair"]]]]}', " " * 21_000_000]
)
def test_files_that_are_no_index(packed: Path, content: str) -> None:
    (packed / "packed.json").write_text(content)
    assert "packed.json: cannot be read (" in refusal(packed)


def test_no_code_is_run(packed: Path, tmp_path: Path) -> None:
    content, canary = trap(tmp_path)
    for name in ("packed.json", "train.pixels", "train.names", "train.labels", "quarantine.txt"):
        kept = (packed / name).read_bytes()
        (packed / name).write_bytes(content)
        assert name in refusal(packed)
        (packed / name).write_bytes(kept)
    assert not canary.exists()


@pytest.mark.parametrize("images", [5, 2**39])
def test_more_images_than_the_file_has(packed: Path, images: int) -> None:
    """Nothing is read or set aside before the length of the file was looked at."""
    change(packed, set_to(images, *TRAIN, "parts", 0, "images"))
    assert "train.pixels: 4,032 bytes where" in refusal(packed)


def spoil(name: str, content: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def act(packed: Path) -> None:
        (packed / name).write_bytes(content((packed / name).read_bytes()))

    return act


def forge(name: str, content: bytes) -> Callable[[Path], None]:
    """Its hash in the index is changed, too."""

    def act(packed: Path) -> None:
        (packed / f"train.{name}").write_bytes(content)
        change(packed, set_to(hashlib.sha256(content).hexdigest(), *TRAIN, name))

    return act


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "pixels cut": (spoil("train.pixels", lambda old: old[:-1]), "4,031 bytes where 4,032 were packed"),
    "pixels too long": (spoil("train.pixels", lambda old: old + b"x"), "4,033 bytes where 4,032 were packed"),
    "pixels gone": (lambda packed: (packed / "train.pixels").unlink(), "train.pixels: is missing"),
    "names changed": (spoil("train.names", lambda old: old.replace(b"a/", b"b/")), "not what was packed"),
    "names gone": (lambda packed: (packed / "train.names").unlink(), "train.names: cannot be read (No such file"),
    "names endless": (spoil("train.names", lambda old: old * 10_000), "train.names: cannot be read (it has"),
    "names too few": (forge("names", b"a\0b"), "train.names: has 2 names of 21 images"),
    "labels changed": (spoil("train.labels", lambda old: old[8:] + old[:8]), "train.labels: is not what was packed"),
    "labels cut": (spoil("train.labels", lambda old: old[:-8]), "160 bytes where 168 were packed"),
    "labels gone": (lambda packed: (packed / "train.labels").unlink(), "train.labels: is missing"),
    "labels of no class": (forge("labels", np.full(21, 2, "<i8").tobytes()), "has labels of none of the 2 classes"),
    "labels below": (forge("labels", np.full(21, -1, "<i8").tobytes()), "has labels of none of the 2 classes"),
    "quarantine changed": (spoil("quarantine.txt", lambda old: old[1:]), "quarantine.txt: is not what was packed"),
    "more in quarantine": (lambda packed: change(packed, set_to(2, *TRAIN, "skipped")), "lists 1 train files, and not"),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_damage_is_one_line(packed: Path, case: str) -> None:
    damage, words = DAMAGES[case]
    damage(packed)
    assert words in refusal(packed)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("name", ["packed.json", "train.pixels", "train.names", "train.labels", "quarantine.txt"])
def test_pipes_and_folders_are_not_waited_for(packed: Path, name: str) -> None:
    (packed / name).unlink()
    os.mkfifo(packed / name)
    assert name in refusal(packed)
    (packed / name).unlink()
    (packed / name).mkdir()
    assert name in refusal(packed)


def test_a_check_finds_nothing_in_what_is_sound(packed: Path, tmp_path: Path) -> None:
    assert find_damage(packed) == []
    shutil.move(packed, tmp_path / "elsewhere")
    assert find_damage(tmp_path / "elsewhere") == []


def test_a_check_says_which_part_is_damaged(packed: Path) -> None:
    """What opening cannot see: bytes that changed in a file of the right length."""
    content = bytearray((packed / "train.pixels").read_bytes())
    place = 9 * 3 * SIZE**2 + 5  # in the tenth image; the second part lacks the broken file
    content[place] ^= 1
    (packed / "train.pixels").write_bytes(content)
    assert len(open_images(str(packed), "train", size=SIZE, root=packed)) == 21
    assert find_damage(packed) == [f"{packed}/train.pixels: images 7 to 10 are not what was packed (by their hash)"]


def test_a_check_finds_all_damage(packed: Path) -> None:
    for name in ("train.pixels", "test.names", "test.labels", "quarantine.txt"):
        (packed / name).write_bytes((packed / name).read_bytes()[:-1])
    content = bytearray((packed / "test.pixels").read_bytes())
    content[0] ^= 1
    content[-1] ^= 1
    (packed / "test.pixels").write_bytes(content)
    found = find_damage(packed)
    assert [line.split(": ")[0].rpartition("/")[2] for line in found] == [
        "quarantine.txt",
        "train.pixels",
        "test.names",
        "test.labels",
        "test.pixels",
        "test.pixels",
    ]
