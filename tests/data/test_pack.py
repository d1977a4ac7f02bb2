"""A packed folder gives what the folder of pictures gives, and says what it is and what is wrong with the pictures."""

import dataclasses
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image

from hardpair.data import Images, open_images, outline_images
from hardpair.data.images import Split
from hardpair.data.pack import pack
from hardpair.errors import UserError

Paint = Callable[..., Path]
SIZE = 12


def colour(k: int) -> tuple[int, int, int]:
    return (k * 37 % 256, k * 11 % 256, k)


def paint_splits(paint: Paint, root: Path) -> None:
    for k in range(23):
        paint(f"train/{'cat' if k % 3 else 'dog'}/{k:02}.png", colour(k), size=(20 + k, 31))
    for k in range(5):
        paint(f"val/dog/{k}.bmp", colour(90 + k))
    (root / "train/cat/07.png").write_bytes(b"rubbish")


def paint_classes(paint: Paint, root: Path) -> None:
    for k in range(41):
        paint(f"{'ab'[k % 2]}/deep/er/{k:02}.png", colour(k))
    (root / "b/deep/er/11.png").write_bytes(b"")


def paint_flat(paint: Paint, root: Path) -> None:
    for k in range(11):
        paint(f"{k:02}.png", colour(k), size=(40, 12))


def paint_odd_names(paint: Paint, root: Path) -> None:
    for k, name in enumerate(["new\nline", "träger", "tab\t", "ein bild", "\x1b[31m"]):
        paint(f"{name}/{name}.png", colour(k))
        paint(f"{name}/other.png", colour(50 + k))
    (root / "träger").rename(os.fsdecode(os.fsencode(root) + b"/\xff\xfe"))  # no text at all


LAYOUTS = [paint_splits, paint_classes, paint_flat, paint_odd_names]


def same(packed: Images, real: Images) -> None:
    assert torch.equal(packed.pixels, real.pixels)
    assert (packed.labels is None) == (real.labels is None)
    assert packed.labels is None or real.labels is None or torch.equal(packed.labels, real.labels)
    for field in ("classes", "files", "skipped"):
        assert getattr(packed, field) == getattr(real, field), field


@pytest.mark.parametrize("lay_out", LAYOUTS, ids=lambda layout: layout.__name__)
def test_packed_images_are_those_of_the_folder(
    root: Path, paint: Paint, target: Path, monkeypatch: pytest.MonkeyPatch, lay_out: Callable[[Paint, Path], None]
) -> None:
    monkeypatch.setattr("hardpair.data.decode.AT_ONCE", 4)
    lay_out(paint, root)
    index = pack(root, target, SIZE)
    assert len(index.splits["train"].parts) > 1
    splits: list[Split] = ["train", "test"] if "test" in index.splits else ["train"]
    assert ("test" in index.splits) == (lay_out is not paint_flat)
    for split in splits:
        real = open_images(str(root), split, size=SIZE, root=root)
        packed = open_images(str(target), split, size=SIZE, root=root)
        same(packed, real)
        assert packed.name == f"packed/{split}"
    assert not (target / "packing.jsonl").exists()


def test_a_split_that_was_not_there(root: Path, paint: Paint, target: Path) -> None:
    paint_flat(paint, root)
    pack(root, target, SIZE)
    with pytest.raises(UserError, match=r"holds no test images, since .*pictures had none"):
        open_images(str(target), "test", size=SIZE, root=root)


def test_a_test_split_with_a_fault_is_not_silently_left_out(root: Path, paint: Paint, target: Path) -> None:
    paint_splits(paint, root)
    paint("val/horse/1.png")
    with pytest.raises(UserError, match="horse: the training images have no such class"):
        pack(root, target, SIZE)
    assert not target.exists()


def test_another_size_is_refused_with_what_to_do(root: Path, paint: Paint, target: Path) -> None:
    paint_flat(paint, root)
    pack(root, target, SIZE)
    with pytest.raises(UserError, match=r"squares of 12 px, not of 16; give --image-size 12.*pictures.*--size 16"):
        open_images(str(target), "train", size=16, root=root)
    with pytest.raises(UserError, match="squares of 12 px, not of 16"):
        outline_images(str(target), size=16)


def test_an_outline_needs_the_index_alone(root: Path, paint: Paint, target: Path) -> None:
    paint_splits(paint, root)
    pack(root, target, SIZE)
    (target / "train.pixels").unlink()
    outline = outline_images(str(target), size=SIZE)
    assert (len(outline.images), len(outline.images.classes)) == (22, 2)
    assert outline.source == f"22 images of {target}: its index says so"


def test_the_hash_comes_from_the_index(root: Path, paint: Paint, target: Path, tmp_path: Path) -> None:
    paint_splits(paint, root)
    pack(root, target, SIZE)
    pack(root, tmp_path / "again", SIZE)
    images, again = (open_images(str(path), "train", size=SIZE, root=root) for path in (target, tmp_path / "again"))
    assert images.digest() == again.digest()
    (target / "train.pixels").write_bytes(bytes((target / "train.pixels").stat().st_size))  # --check would see it
    assert open_images(str(target), "train", size=SIZE, root=root).digest() == again.digest()
    paint("train/dog/00.png", (1, 2, 3), size=(20, 31))
    pack(root, tmp_path / "other", SIZE)
    assert open_images(str(tmp_path / "other"), "train", size=SIZE, root=root).digest() != again.digest()


def test_selections_have_hashes_of_their_own(root: Path, paint: Paint, target: Path) -> None:
    paint_splits(paint, root)
    pack(root, target, SIZE)
    images = open_images(str(target), "train", size=SIZE, root=root)
    chosen = [images.select(torch.tensor(rows)) for rows in ([0, 1, 2], [0, 1, 3], [1, 0, 2])]
    different = [images, *chosen, images.centre(8), chosen[0].centre(8), images.centre(10).centre(8)]
    assert len({some.digest() for some in different}) == len(different)
    assert chosen[0].digest() == images.select(torch.tensor([4, 0, 1, 2])).select(torch.tensor([1, 2, 3])).digest()
    assert images.centre(SIZE).digest() == images.digest()


def test_another_block_is_read(root: Path, paint: Paint, target: Path) -> None:
    paint_splits(paint, root)
    pack(root, target, SIZE)
    images = open_images(str(target), "train", size=SIZE, root=root)
    real = open_images(str(root), "train", size=SIZE, root=root)
    assert dataclasses.replace(images, block=images.block.clone()).digest() == real.digest() != images.digest()


def test_packing_what_is_packed_does_nothing(
    root: Path, paint: Paint, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paint_flat(paint, root)
    index = pack(root, target, SIZE)
    stamps = {path.name: path.stat().st_mtime_ns for path in target.iterdir()}
    monkeypatch.setattr("hardpair.data.decode.read_square", None)
    assert pack(root, target, SIZE) == index
    assert {path.name: path.stat().st_mtime_ns for path in target.iterdir()} == stamps
    with pytest.raises(UserError, match="pictures at 12 px, packed before; choose another"):
        pack(root, target, 16)
    paint("99.png")
    with pytest.raises(UserError, match="packed before; choose another"):
        pack(root, target, SIZE)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("pictures", "lies in the folder of the pictures"),
        ("pictures/below", "lies in the folder of the pictures"),
        ("file", "is a file"),
        ("full", "is not empty"),
    ],
)
def test_places_that_are_refused(root: Path, paint: Paint, tmp_path: Path, place: str, words: str) -> None:
    paint_flat(paint, root)
    (tmp_path / "file").touch()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").touch()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=words):
        pack(root, tmp_path / place, SIZE)
    assert sorted(tmp_path.rglob("*")) == before


def test_sources_that_are_refused(root: Path, paint: Paint, target: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        pack(tmp_path / "gone", target, SIZE)
    with pytest.raises(UserError, match="holds no images"):
        pack(root, target, SIZE)
    assert not target.exists()
    paint_flat(paint, root)
    pack(root, target, SIZE)
    with pytest.raises(UserError, match="is packed already; give the folder of the pictures"):
        pack(target, tmp_path / "twice", SIZE)
    with pytest.raises(UserError, match="size: must be between 8 and 1024, not 4096"):
        pack(root, tmp_path / "large", 4096)


def test_a_disk_without_room_is_refused_before_anything_is_decoded(
    root: Path, paint: Paint, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paint_flat(paint, root)
    with monkeypatch.context() as patch:
        patch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 11 * 3 * SIZE**2 - 1}))
        patch.setattr("hardpair.data.decode.read_square", None)
        with pytest.raises(UserError, match=r"needs 4\.8 kB more where the disk has 4\.8 kB free.*smaller --size"):
            pack(root, target, SIZE)
    assert pack(root, target, 8).size == 8, "what was refused was not begun"


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
    monkeypatch.setattr("hardpair.data.decode.AT_ONCE", 7)
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
    monkeypatch.setattr("hardpair.data.decode.AT_ONCE", 4)
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
