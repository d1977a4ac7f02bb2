"""The images that a protocol gets."""

import shutil
from pathlib import Path
from typing import Literal

import pytest
import torch
from noise_photos import write_photos

from hardpair import build_encoder
from hardpair.data import Images, open_images
from hardpair.data.pack import pack
from hardpair.errors import UserError
from hardpair.evaluate.context import Context


def context(folder: Path, on: Literal["test", "validation"] = "test", size: int = 8) -> Context:
    """For an encoder of large images, which is tested on the centre of still larger ones."""
    encoder, cpu = build_encoder("resnet10", width=1 / 16, small_images=False), torch.device("cpu")
    return Context(folder, encoder, str(folder), size, 0, on, folder, cpu, print)


def test_only_the_split_of_a_name_becomes_validation(tmp_path: Path) -> None:
    opened = context(write_photos(tmp_path / "trainset"), "validation")
    assert (opened.images("train").name, opened.images("test").name) == ("trainset/train", "trainset/validation")


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_picture_beside_the_classes_is_named_where_labels_are_missed(
    tmp_path: Path, split: Literal["train", "test"]
) -> None:
    photos = write_photos(tmp_path / "photos")
    shutil.copy(photos / split / "heads/0.png", photos / split / "stray.png")
    pack(photos, tmp_path / "packed", 8)
    for folder in (photos, tmp_path / "packed"):
        with pytest.raises(UserError, match=rf"{folder.name}/{split}: .*stray\.png.*--data FOLDER"):
            context(folder).images(split)


def test_one_class_folder_is_not_two_classes(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos")
    shutil.copytree(photos / "train" / "heads", tmp_path / "mine" / "heads")
    with pytest.raises(UserError, match=r"mine/train: .*one folder .*two classes.*heads/.*--data FOLDER"):
        context(tmp_path / "mine").images("train")


@pytest.mark.parametrize("on", ["test", "validation"])
def test_packed_images_have_no_larger_squares_so_the_pictures_are_asked_for(
    tmp_path: Path, on: Literal["test", "validation"]
) -> None:
    photos, packed = write_photos(tmp_path / "photos"), tmp_path / "packed"
    pack(photos, packed, 8)
    closed = context(packed, on)
    assert closed.images("test").size == 8
    with pytest.raises(UserError, match=rf"packed: .* \(9 px for 8\).* --data {photos}$"):
        closed.centre(lambda size: closed.images("test", size))
    opened = context(photos, on)
    assert opened.centre(lambda size: opened.images("test", size)).size == 8
    with pytest.raises(UserError, match="--image-size 8"):
        context(packed, on, size=16).images("train")


def test_large_images_are_tested_on_their_centre(tmp_path: Path) -> None:
    def shown(*, small_images: bool) -> tuple[Context, Images]:
        encoder = build_encoder("resnet10", width=1 / 16, small_images=small_images)
        opened = Context(tmp_path, encoder, "sample", 28, 0, "test", tmp_path, torch.device("cpu"), print)
        return opened, opened.centre(lambda size: opened.images("test", size))

    _, large = shown(small_images=False)
    assert torch.equal(large.pixels, open_images("sample", "test", size=32, root=tmp_path).pixels[:, :, 2:30, 2:30])
    opened, small = shown(small_images=True)
    assert small.digest() == opened.images("test").digest()
