"""The images that a protocol gets."""

import shutil
from pathlib import Path
from typing import Literal

import pytest
import torch
from noise_photos import write_photos

from hardpair import build_encoder, load_encoder
from hardpair.data import Images, open_images
from hardpair.data.pack import pack
from hardpair.errors import UserError
from hardpair.evaluate.context import Context, random_like
from hardpair.models import save_encoder
from hardpair.views import plain_view

CPU = torch.device("cpu")


def context(
    folder: Path, on: Literal["test", "validation"] = "test", size: int = 8, source: str = "", trained_at: int = 0
) -> Context:
    """For an encoder of large images, which is tested on the centre of still larger ones."""
    encoder = build_encoder("resnet10", width=1 / 16, small_images=False).eval()
    return Context(folder, encoder, source or str(folder), size, 0, on, folder, CPU, print, trained_at=trained_at)


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


def test_an_encoder_whose_views_were_cut_from_larger_images_sees_the_centre_of_those(tmp_path: Path) -> None:
    """224 px of 256, that is 280 of 320: here 21 px of 32, of which 28 are the centre. Nothing is decoded anew."""
    opened = context(tmp_path, size=21, source="sample", trained_at=32)
    whole = open_images("sample", "test", size=32, root=tmp_path)
    centre = whole.pixels[:, :, 2:30, 2:30]
    for test in (opened.plain("test"), opened.centre(lambda size: opened.images("test", size))):
        assert torch.equal(test.pixels, centre)
        assert test.shown == 21
    few = opened.plain("test").select(torch.arange(20))
    with torch.no_grad():
        expected = opened.encoder(plain_view(centre[:20], 21))
    torch.testing.assert_close(opened.features(opened.encoder, few)[0], expected)
    crops = opened.crops("train")
    assert (crops.size, crops.shown) == (32, 21)


def test_features_are_of_whole_squares_where_training_had_no_larger_ones(tmp_path: Path) -> None:
    opened = context(tmp_path, size=28, source="sample", trained_at=28)
    images = opened.images("test")
    assert opened.plain("test").digest() == opened.crops("test").digest() == images.digest()


@pytest.mark.parametrize(("packed_at", "centre"), [(32, 28), (26, 23), (21, None)])
def test_a_packed_set_of_another_size_is_used_if_it_is_large_enough(
    tmp_path: Path, packed_at: int, centre: int | None
) -> None:
    photos, packed = write_photos(tmp_path / "photos"), tmp_path / "packed"
    pack(photos, packed, packed_at)
    opened = context(packed, size=21, trained_at=32)
    assert (opened.crops("train").size, opened.plain("train").size) == (packed_at, centre or packed_at)
    if centre is None:
        with pytest.raises(UserError, match=rf"packed: .* \(24 px for 21\).* --data {photos}$"):
            opened.centre(lambda size: opened.images("test", size))
        with pytest.raises(UserError, match="--image-size 21"):
            context(packed, size=22, trained_at=32).plain("test")
    else:
        assert opened.centre(lambda size: opened.images("test", size)).digest() == opened.plain("test").digest()


def test_a_random_encoder_begins_as_the_trained_one_did(tmp_path: Path) -> None:
    encoder = build_encoder("resnet10", width=1 / 16, zero_init=True)
    with torch.no_grad():
        for weight in encoder.parameters():
            weight.fill_(1)  # as if trained
    save_encoder(encoder, tmp_path, step=1)
    control = random_like(load_encoder(tmp_path), seed=0, device=CPU)
    assert not any(block[0].bn2.weight.any() for block in (control.trunk.layer1, control.trunk.layer4))
