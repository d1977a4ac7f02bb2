"""Folders with known faults are described as they are."""

import shutil
from pathlib import Path

import pytest
from noise_photos import write_photos
from PIL import Image

from hardpair.doctor import Doctor, Finding, image_checks
from hardpair.doctor.image_checks import check_images


@pytest.fixture
def photos(tmp_path) -> Path:
    return write_photos(tmp_path / "photos")


def look(folder: Path) -> dict[str, Finding]:
    return {finding.check: finding for finding in check_images(Doctor(data=str(folder)))}


def test_a_sound_folder(photos):
    found = look(photos)
    assert {finding.level for finding in found.values()} == {"good"}
    assert found["images"].found == "300 training images of 2 classes"
    assert found["balance"].found == "150 of each class"
    assert found["leaks"].found == "none of 40 test images is a training image"


def test_broken_files_copies_and_leaks(photos):
    (photos / "train/heads/7.png").write_bytes(b"no picture")
    Image.open(photos / "train/heads/3.png").save(photos / "train/tails/copy.bmp")  # other bytes, the same pixels
    shutil.copy(photos / "train/tails/5.png", photos / "test/tails/leak.png")
    found = look(photos)
    assert found["images"].found == "301 training images of 2 classes"
    assert found["train files"].level == "warning"
    assert found["train files"].found == "1 file cannot be used: heads/7.png: not a JPEG, PNG, WebP, BMP or GIF image"
    assert found["test files"].level == "good"
    assert found["duplicates"].level == "warning"
    assert found["duplicates"].found == "1 training image too many: train/heads/3.png = train/tails/copy.bmp"
    assert found["leaks"].level == "bad"
    assert found["leaks"].found == "1 of 41 test images also to train on: test/tails/leak.png = train/tails/5.png"


def test_five_groups_of_duplicates_are_named_and_the_others_counted(photos):
    for place in range(7):
        for copy in range(6 if place == 0 else 1):
            shutil.copy(photos / f"train/heads/{place}.png", photos / f"train/tails/copy-{place}-{copy}.png")
    words = look(photos)["duplicates"].found
    assert words.startswith("12 training images too many: train/heads/0.png = train/tails/copy-0-0.png = ")
    groups = words.partition(": ")[2].split("; ")
    assert groups[0].endswith("= and 2 more")
    assert groups[4] == "train/heads/4.png = train/tails/copy-4-0.png"
    assert groups[5:] == ["and 2 more"]


def test_as_many_broken_files_as_training_refuses(photos):
    for place in range(16):
        (photos / f"train/heads/{place}.png").write_bytes(b"")
    finding = look(photos)["train files"]
    assert finding.level == "bad"
    assert finding.found.startswith("16 files cannot be used: heads/0.png: ")
    assert finding.found.endswith("; and 11 more")


def test_of_many_files_some_are_looked_at_and_it_says_so(photos, monkeypatch):
    monkeypatch.setattr(image_checks, "MOST", 30)
    found = look(photos)
    assert found["images"].found == "300 training images of 2 classes"
    part = "among the 30 of 300 that were looked at"
    assert all(part in found[check].found for check in ("train files", "duplicates", "leaks"))
    assert "among the 30 of 40 that were looked at" in found["test files"].found
    assert found["balance"].found == "150 of each class"


def test_small_classes(photos):
    for place in range(14, 150):
        (photos / f"train/tails/{place}.png").unlink()
    finding = look(photos)["balance"]
    assert (finding.level, finding.found) == ("warning", "14 (tails) to 150 (heads) per class")


def test_pictures_without_labels(photos):
    found = look(photos / "train/heads")
    assert found["images"].found == "150 training images without labels"
    assert found["test images"].level == "warning"
    assert "bad" not in {finding.level for finding in found.values()}


def test_a_picture_beside_the_classes_is_named(photos):
    (photos / "train/heads/7.png").rename(photos / "train/7.png")
    finding = look(photos)["balance"]
    assert finding.level == "warning"
    assert finding.found.endswith("beside the folders of classes: 7.png)")


def test_nothing_is_downloaded(tmp_path):
    (finding,) = check_images(Doctor(data="cifar10", data_root=tmp_path / "data"))
    assert finding.level == "warning"
    assert not (tmp_path / "data").exists()


def test_without_images_there_is_nothing_to_say():
    assert list(check_images(Doctor())) == []
