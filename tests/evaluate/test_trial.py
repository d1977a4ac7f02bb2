"""The images that a protocol is given."""

import shutil
from pathlib import Path
from typing import Literal

import pytest
import torch
from noise_photos import write_photos

from hardpair import build_encoder
from hardpair.data.pack import pack
from hardpair.errors import UserError
from hardpair.evaluate.trial import Bench


def bench(folder: Path, on: Literal["test", "validation"] = "test", size: int = 8) -> Bench:
    """For an encoder of large images, which is tested on the centre of still larger ones."""
    encoder, cpu = build_encoder("resnet10", width=1 / 16, small_images=False), torch.device("cpu")
    return Bench(folder, encoder, source=str(folder), size=size, seed=0, on=on, root=folder, device=cpu, say=print)


def test_only_the_split_of_a_name_becomes_validation(tmp_path: Path) -> None:
    judged = bench(write_photos(tmp_path / "trainset"), "validation")
    assert (judged.images("train").name, judged.images("test").name) == ("trainset/train", "trainset/validation")


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_picture_beside_the_classes_is_named_where_labels_are_missed(
    tmp_path: Path, split: Literal["train", "test"]
) -> None:
    photos = write_photos(tmp_path / "photos")
    shutil.copy(photos / split / "heads/0.png", photos / split / "stray.png")
    pack(photos, tmp_path / "packed", 8)
    for folder in (photos, tmp_path / "packed"):
        with pytest.raises(UserError, match=rf"{folder.name}/{split}: has no labels .* classes: stray\.png\); give"):
            bench(folder).images(split)


@pytest.mark.parametrize("on", ["test", "validation"])
def test_packed_images_have_no_larger_squares_so_the_pictures_are_asked_for(
    tmp_path: Path, on: Literal["test", "validation"]
) -> None:
    photos, packed = write_photos(tmp_path / "photos"), tmp_path / "packed"
    pack(photos, packed, 8)
    judged = bench(packed, on)
    assert judged.images("test").size == 8
    with pytest.raises(UserError, match=rf"packed: is packed, .* \(9 px for 8\); give .* with --data {photos}$"):
        judged.centre(lambda size: judged.images("test", size))
    opened = bench(photos, on)
    assert opened.centre(lambda size: opened.images("test", size)).size == 8
    with pytest.raises(UserError, match="holds squares of 8 px, not of 16; give --image-size 8"):
        bench(packed, on, size=16).images("train")
