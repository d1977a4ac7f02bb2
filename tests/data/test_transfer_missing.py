"""Sets that are missing or not whole are named in one line, before anything is decoded."""

from collections.abc import Callable
from pathlib import Path

import pytest
from transfer_layouts import WRITERS, Small, write_cifar10, write_flowers102, write_pets, write_sun397

from hardpair.data.cifar10 import ARCHIVE
from hardpair.data.transfer import TRANSFER_SETS, MissingSetError, TransferSplit, open_transfer
from hardpair.errors import UserError


@pytest.fixture
def _small_flowers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchvision.datasets.flowers102.check_integrity", lambda path, _: Path(path).is_file())


def complaint(name: str, split: TransferSplit, root: Path, made: Small | None = None) -> str:
    with pytest.raises(MissingSetError) as caught:
        open_transfer(name, split, size=12, root=root, wanted=made and made.wanted)
    wanted, message = TRANSFER_SETS[name], str(caught.value)
    assert message.isprintable()
    assert message.startswith(f"{root / wanted.folder}: ")
    assert message.endswith(f"; this folder should hold {wanted.title} from {wanted.address}")
    return message


FIRST = {
    "food101": "meta/test.json is missing",
    "cifar10": "test_batch.bin is missing",
    "sun397": "ClassName.txt is missing, here and in Partitions/",
    "cars": "cars_test_annos_withlabels.mat is missing",
    "pets": "annotations/test.txt is missing",
    "voc2007": "ImageSets/Main/test.txt is missing",
    "flowers102": "setid.mat is missing",
}


@pytest.mark.parametrize("name", TRANSFER_SETS)
def test_nothing_there(name: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardpair.data.cifar10.fetch", None)  # nobody allowed a download
    assert FIRST[name] in complaint(name, "test", root)
    assert list(root.iterdir()) == []


@pytest.mark.usefixtures("_small_flowers")
@pytest.mark.parametrize("name", [name for name in TRANSFER_SETS if name != "cifar10"])
@pytest.mark.parametrize("split", ["train", "test"])
def test_images_that_are_listed_but_not_there(name: str, split: TransferSplit, root: Path, cache: Path) -> None:
    made = WRITERS[name](root)
    lost = sorted(made.files[number].relative_to(made.folder).as_posix() for number in list(made.truth[split])[:2])
    for file in lost:
        (made.folder / file).unlink()
    words = f"{len(made.truth[split])} images listed, 2 not found, the first is {lost[0]};"
    assert words in complaint(name, split, root, made)
    assert not cache.exists(), "nothing was decoded"


@pytest.mark.usefixtures("_small_flowers")
@pytest.mark.parametrize(
    ("name", "split", "file"),
    [
        ("food101", "train", "meta/train.json"),
        ("cifar10", "validation", "data_batch_4.bin"),
        ("sun397", "test", "Partitions/Testing_01.txt"),
        ("sun397", "validation", "Partitions/Training_01.txt"),
        ("cars", "validation", "devkit/cars_train_annos.mat"),
        ("cars", "test", "devkit/cars_meta.mat"),
        ("pets", "train", "annotations/trainval.txt"),
        ("voc2007", "validation", "ImageSets/Main/cow_val.txt"),
        ("flowers102", "train", "imagelabels.mat"),
    ],
)
def test_a_missing_list_is_named(name: str, split: TransferSplit, file: str, root: Path) -> None:
    made = WRITERS[name](root)
    (made.folder / file).unlink()
    assert f"{file.removeprefix('Partitions/')} is missing" in complaint(name, split, root, made)


def cut_last_line(text: str) -> str:
    return text.rstrip("\n").rpartition("\n")[0]


@pytest.mark.parametrize(
    ("name", "file", "damage", "words"),
    [
        ("pets", "annotations/test.txt", cut_last_line, "8 images listed where the set has 9"),
        ("pets", "annotations/test.txt", lambda text: text.replace(" 3 2 1", " 2 2 1"), "2 classes listed where the"),
        ("pets", "annotations/test.txt", lambda text: text + "cat one\n", "'cat one' is not an image and a number"),
        ("pets", "annotations/test.txt", lambda text: text + "\0cat\n", r"'?cat' is not an image and a number"),
        ("voc2007", "ImageSets/Main/dog_test.txt", cut_last_line, "dog_test.txt: needs 1, -1 or 0 for each image"),
        ("voc2007", "ImageSets/Main/dog_test.txt", lambda text: text.replace("-1", "2"), "dog_test.txt: needs 1, -1"),
        (
            "sun397",
            "Partitions/Testing_01.txt",
            lambda text: text + "/b/bar/sun.jpg",
            "'/b/bar/sun.jpg' is of no class",
        ),
        ("food101", "meta/test.json", lambda text: text[:-9], "food-101: meta/test.json is not the official file ("),
        ("cars", "devkit/cars_meta.mat", lambda _: "rubbish", "devkit/cars_meta.mat is not the official file"),
    ],
)
def test_a_damaged_list_is_named(name: str, file: str, damage: Callable[[str], str], words: str, root: Path) -> None:
    made = WRITERS[name](root)
    path = made.folder / file
    path.write_text(damage(path.read_text(errors="replace")))
    assert words in complaint(name, "test", root, made)


def test_a_list_that_cannot_be_read(root: Path) -> None:
    made = write_pets(root)
    (made.folder / "annotations/test.txt").unlink()
    (made.folder / "annotations/test.txt").mkdir()
    assert "annotations/test.txt cannot be read (Is a directory)" in complaint("pets", "test", root, made)


def test_other_lists_of_flowers_are_refused(root: Path) -> None:
    made = write_flowers102(root)
    assert "setid.mat or imagelabels.mat is not the official file" in complaint("flowers102", "test", root, made)


def test_official_numbers_are_expected_unless_others_are_given(root: Path) -> None:
    write_sun397(root)
    assert "3 classes listed where the set has 397" in complaint("sun397", "train", root)


def test_cifar10_beside_its_archive_is_unpacked_without_a_download(root: Path) -> None:
    (root / ARCHIVE).write_bytes(b"not the archive")
    with pytest.raises(UserError, match=f"{ARCHIVE}: 15 bytes where 170,052,171 are expected"):
        open_transfer("cifar10", "test", size=32, root=root)


def test_cifar10_of_another_length(root: Path) -> None:
    made = write_cifar10(root)
    with pytest.raises(UserError, match="61,460 bytes where CIFAR-10 has 30,730,000"):
        open_transfer("cifar10", "test", size=32, root=root)
    assert len(open_transfer("cifar10", "test", size=32, root=root, wanted=made.wanted)) == 20
