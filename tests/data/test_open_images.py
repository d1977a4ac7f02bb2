"""Data sets by name and by path; what is known of them without opening them."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import hardpair.data
from hardpair.data import open_images, outline_images
from hardpair.data.cifar10 import FOLDER
from hardpair.errors import UserError


def test_public_names() -> None:
    assert sorted(hardpair.data.__all__) == [
        "Images",
        "epoch_order",
        "hold_out",
        "label_subset",
        "only_size",
        "open_images",
        "outline_images",
        "shorter_side",
    ]


def test_sample_in_its_own_and_another_size(tmp_path: Path) -> None:
    own = open_images("sample", "test", size=32, root=tmp_path)
    small = open_images("sample", "test", size=16, root=tmp_path)
    large = open_images("sample", "test", size=48, root=tmp_path)
    assert own.size == 32
    assert small.pixels.shape == (1000, 3, 16, 16)
    assert large.pixels.shape == (1000, 3, 48, 48)
    assert small.pixels.dtype == torch.uint8
    means = [images.pixels.float().mean((2, 3)) for images in (own, small, large)]
    assert (means[0] - means[1]).abs().mean() < 1
    assert (means[0] - means[2]).abs().mean() < 1
    assert small.labels is not None
    assert small.name == own.name


def test_a_part_has_as_many_of_each_class_and_all_test_images(tmp_path: Path) -> None:
    part, again = (open_images("sample:300", "train", size=32, root=tmp_path) for _ in range(2))
    assert part.labels is not None
    assert part.labels.bincount().tolist() == [30] * 10
    assert part.name == "sample:300/train"
    assert part.digest() == again.digest()
    whole = open_images("sample", "train", size=32, root=tmp_path)
    assert open_images("sample:5000", "train", size=32, root=tmp_path).facts() == whole.facts()
    assert len(open_images("sample:300", "test", size=32, root=tmp_path)) == 1000


@pytest.mark.parametrize("count", ["", "0", "9", "5001", "-5", "many", "1e3"])
def test_a_part_that_cannot_be(count: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"data: .*give 10 to 5000"):
        open_images(f"sample:{count}", "train", size=32, root=tmp_path)


def test_cifar10_below_the_root(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    with (tmp_path / FOLDER / "test_batch.bin").open("wb") as file:
        file.truncate(30_730_000)
    assert open_images("cifar10", "test", size=8, root=tmp_path).pixels.shape == (10_000, 3, 8, 8)


def test_folder_by_path_and_by_bare_name(
    root: Path, paint: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paint("a.jpg")
    monkeypatch.chdir(tmp_path)
    for data in (str(root), "pictures", "./pictures", "pictures/"):
        assert open_images(data, "train", size=8, root=tmp_path).pixels.shape == (1, 3, 8, 8)


@pytest.mark.parametrize(
    ("data", "near"), [("cifar", "cifar10"), ("CIFAR-10", "cifar10"), ("sampel", "sample"), ("samples", "sample")]
)
def test_unknown_word_suggests_the_nearest(data: str, near: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"did you mean {near}.*sample, cifar10 or the path"):
        open_images(data, "train", size=32, root=tmp_path)


@pytest.mark.parametrize("data", ["", "xyzzy", "x" * 5000])
def test_unknown_word_without_neighbours(data: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is unknown; give sample, cifar10 or the path"):
        open_images(data, "train", size=32, root=tmp_path)


def test_paths_that_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="no such folder"):
        open_images(str(tmp_path / "gone"), "train", size=32, root=tmp_path)
    with pytest.raises(UserError, match="is a file"):
        open_images(str(tmp_path / "file"), "train", size=32, root=tmp_path)


@pytest.mark.parametrize("size", [0, -1, 7])
def test_size_too_small(size: int, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="size"):
        open_images("sample", "train", size=size, root=tmp_path)


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
