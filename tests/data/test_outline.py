"""What is known of training images without opening them agrees with what opening them gives."""

from collections.abc import Callable
from pathlib import Path

import pytest

from hardpair.data import open_images, outline_images
from hardpair.errors import UserError


@pytest.mark.parametrize("data", ["sample", "sample:300", "sample:305", "sample:5000"])
def test_named_sets(data: str, tmp_path: Path) -> None:
    real = open_images(data, "train", size=32, root=tmp_path)
    outline = outline_images(data, size=32)
    assert outline.images.pixels.shape == real.pixels.shape
    assert len(outline.images.classes) == len(real.classes)
    assert f"{len(real):,} images" in outline.source


def test_cifar10_is_known_and_not_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(outline_images("cifar10", size=32).images) == 50_000
    assert len(outline_images("cifar10:10000", size=32).images) == 10_000
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_counted_and_not_decoded(root: Path, paint: Callable[..., Path]) -> None:
    for name in ("cat/1.jpg", "cat/2.jpg", "cat/3.jpg", "dog/1.jpg", "dog/2.jpg", "dog/3.jpg"):
        paint(name)
    real = open_images(str(root), "train", size=8, root=root)
    (root / "cat" / "1.jpg").write_bytes(b"")  # an outline does not look
    outline = outline_images(str(root), size=8).images
    assert len(outline) == len(real) == 4  # the rest is held out
    assert len(outline.classes) == 2


def test_a_flat_folder_has_no_labels(root: Path, paint: Callable[..., Path]) -> None:
    paint("a.jpg")
    assert outline_images(str(root), size=8).images.labels is None


def test_imagenet_is_assumed_where_it_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outline = outline_images("imagenet", size=224)
    assert len(outline.images) == 1_281_167
    assert len(outline.images.classes) == 1000
    assert "no such folder here" in outline.source


def test_imagenet_is_counted_where_it_is(
    root: Path, paint: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paint("a.jpg")
    monkeypatch.chdir(tmp_path)
    root.rename("imagenet")
    assert len(outline_images("imagenet", size=224).images) == 1


def test_a_given_number_needs_no_images() -> None:
    outline = outline_images("no/such/folder", size=1024, count=10**9)
    assert len(outline.images) == 10**9
    assert outline.images.pixels.untyped_storage().nbytes() == 3  # one pixel stands for all
    assert "as given" in outline.source


@pytest.mark.parametrize(
    ("data", "words"),
    [("no/such/folder", "no such folder"), ("cifar", "did you mean"), ("sample:7", "give 10 to 5000")],
)
def test_what_cannot_be_known(data: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        outline_images(data, size=32)
