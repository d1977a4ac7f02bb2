"""What packing says about the pictures: those it could not use, those that are there twice, those that leak."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from hardpair.data.packed.writing import pack
from hardpair.errors import UserError

Paint = Callable[..., Path]


@pytest.fixture
def pictures(root: Path, paint: Paint) -> Path:
    for k in range(40):
        paint(f"train/{'ab'[k % 2]}/{k:02}.png", (k, 2 * k, 3 * k))
        paint(f"test/{'ab'[k % 2]}/{k:02}.png", (3 * k, k, 2 * k + 1))
    return root


def test_nothing_to_say(pictures: Path, target: Path) -> None:
    index = pack(pictures, target, 8)
    assert (index.repeated, index.leaked) == (0, 0)
    assert (target / "duplicates.txt").read_text() == (target / "quarantine.txt").read_text() == ""


def test_copies_and_leaks(pictures: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal pixels count, whatever the bytes, in whatever part they lie."""
    monkeypatch.setattr("hardpair.data.folder.AT_ONCE", 7)
    Image.open(pictures / "train/a/02.png").save(pictures / "train/b/copy.bmp")
    shutil.copy(pictures / "train/a/02.png", pictures / "train/b/zz\n.png")
    shutil.copy(pictures / "test/a/04.png", pictures / "test/b/copy.png")
    shutil.copy(pictures / "train/b/33.png", pictures / "test/b/leak.png")
    index = pack(pictures, target, 8)
    assert (index.repeated, index.leaked) == (3, 1)
    assert (target / "duplicates.txt").read_text().splitlines() == [
        "train: b/copy.bmp = train: a/02.png",
        "train: b/zz?.png = train: a/02.png",
        "test: b/copy.png = test: a/04.png",
        "test: b/leak.png = train: b/33.png",
    ]
    assert (len(index.splits), index.splits["train"].images, index.splits["test"].images) == (2, 42, 42)


def test_files_that_cannot_be_used_are_listed(pictures: Path, target: Path) -> None:
    (pictures / "train/a/00.png").write_bytes(b"")
    (pictures / "test/b/05.png").write_bytes(b"rubbish")
    index = pack(pictures, target, 8)
    assert (target / "quarantine.txt").read_text().splitlines() == [
        "train: a/00.png: empty",
        "test: b/05.png: not a JPEG, PNG, WebP, BMP or GIF image",
    ]
    assert {split: packed.skipped for split, packed in index.splits.items()} == {"train": 1, "test": 1}


def test_too_many_stop_it_as_soon_as_that_is_certain(
    pictures: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hardpair.data.folder.AT_ONCE", 4)
    (pictures / "test/a/00.png").write_bytes(b"")
    for name in ("00", "02", "06"):
        (pictures / f"train/a/{name}.png").write_bytes(b"")
    for _ in range(2):  # the same command says the same again
        with pytest.raises(UserError, match=r"train: 3 of 40 files cannot be used.*quarantine\.txt lists those found"):
            pack(pictures, target, 8)
        assert (target / "quarantine.txt").read_text().count("\n") == 3
        assert (target / "train.pixels").stat().st_size <= 8 * 3 * 8**2, "nearly all is still to be decoded"
    shutil.rmtree(target)
    for name in ("00", "02", "06"):
        (pictures / f"train/a/{name}.png").unlink()
    assert pack(pictures, target, 8).splits["train"].images == 37
