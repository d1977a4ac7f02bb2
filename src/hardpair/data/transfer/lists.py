"""The official list files of each set: which images a split has, and their labels.

SUN397, Pets and VOC 2007 are read here, Food101, Cars and Flowers by torchvision, which takes a second to import:
each function imports it when it is called.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from hardpair.data.layout import Listing
from hardpair.data.transfer.sets import LackError, TransferSplit
from hardpair.errors import printable

PARTS: dict[TransferSplit, str] = {"train": "train", "validation": "val", "test": "test"}  # as the authors call them
# fmt: off
VOC_CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)
# fmt: on


def list_sun397(folder: Path, split: TransferSplit) -> Listing:
    """Official split 1: lines such as /a/abbey/sun_aaa.jpg, of the classes that ClassName.txt numbers."""
    kinds = _read_lines(folder, _find_partition(folder, "ClassName.txt"))  # "/a/apartment_building/outdoor"
    number = {kind: label for label, kind in enumerate(kinds)}
    file = _find_partition(folder, "Testing_01.txt" if split == "test" else "Training_01.txt")
    labelled: dict[str, int] = {}
    for line in _read_lines(folder, file):
        kind = line.rpartition("/")[0]
        if kind not in number:
            raise LackError(f"{file}: {printable(line)[:60]!r} is of no class of ClassName.txt")
        labelled[line.lstrip("/")] = number[kind]
    return make_listing(folder, labelled, tuple(kind[len("/a/") :] for kind in kinds))


def list_pets(folder: Path, split: TransferSplit) -> Listing:
    """Lines such as "Abyssinian_100 1 1 1": image, class from 1 on, and two numbers that do not matter here."""
    numbers = _read_numbers(folder, f"annotations/{'test' if split == 'test' else 'trainval'}.txt")
    breeds = {number: image.rpartition("_")[0].replace("_", " ") for image, number in numbers.items()}
    labels = {number: label for label, number in enumerate(sorted(breeds))}
    labelled = {f"images/{image}.jpg": labels[number] for image, number in numbers.items()}
    return make_listing(folder, labelled, tuple(breeds[number] for number in labels))


def list_voc2007(folder: Path, split: TransferSplit) -> Listing:
    """One file a class, with 1 (there), -1 (not there) or 0 (there, but too difficult to count) for every image."""
    part = PARTS[split]
    images = _read_lines(folder, f"ImageSets/Main/{part}.txt")
    columns = [_read_numbers(folder, f"ImageSets/Main/{kind}_{part}.txt") for kind in VOC_CLASSES]
    for kind, column in zip(VOC_CLASSES, columns, strict=True):
        if column.keys() != set(images) or not set(column.values()) <= {1, -1, 0}:
            raise LackError(f"ImageSets/Main/{kind}_{part}.txt: needs 1, -1 or 0 for each image of {part}.txt")
    labelled = {f"JPEGImages/{image}.jpg": [column[image] for column in columns] for image in images}
    return make_listing(folder, labelled, VOC_CLASSES)


def make_listing(folder: Path, labelled: Mapping[str, int | list[int]], classes: tuple[str, ...]) -> Listing:
    """Files and their labels, sorted by name: what is held out must not hang on the order of a list file."""
    names = sorted(labelled)
    labels = torch.tensor([labelled[name] for name in names], dtype=torch.int64)
    return Listing(folder, names, labels, classes)


def _find_partition(folder: Path, file: str) -> str:
    """The lists of SUN397 come in an archive of their own, which people unpack in either place."""
    for place in (file, f"Partitions/{file}"):
        if (folder / place).exists():
            return place
    raise LackError(f"{file} is missing, here and in Partitions/ (download/Partitions.zip has it)")


def _read_numbers(folder: Path, file: str) -> dict[str, int]:
    """The first two words of every line: an image and its number."""
    numbers: dict[str, int] = {}
    for line in _read_lines(folder, file):
        try:
            image, number = line.split()[:2]
            numbers[image] = int(number)
        except ValueError as error:
            raise LackError(f"{file}: {printable(line)[:60]!r} is not an image and a number") from error
    return numbers


def _read_lines(folder: Path, file: str) -> list[str]:
    """The lines that say something."""
    try:
        text = (folder / file).read_text("utf-8", errors="replace")  # a broken letter becomes a file that is not found
    except FileNotFoundError as error:
        raise LackError(f"{file} is missing") from error
    except OSError as error:
        raise LackError(f"{file} cannot be read ({error.strerror})") from error
    return [line.strip() for line in text.splitlines() if line.strip()]


def list_food101(folder: Path, split: TransferSplit) -> Listing:
    """750 training and 250 test images of each class."""
    from torchvision.datasets import Food101

    part = "test" if split == "test" else "train"
    return _list(Food101, folder, part, f"meta/{part}.json", "images")


def list_cars(folder: Path, split: TransferSplit) -> Listing:
    """The official labels of the test images are a file outside the devkit."""
    from torchvision.datasets import StanfordCars

    part = "test" if split == "test" else "train"
    labels = "cars_test_annos_withlabels.mat" if split == "test" else "devkit/cars_train_annos.mat"
    return _list(StanfordCars, folder, part, labels, "devkit/cars_meta.mat", f"cars_{part}")


def list_flowers102(folder: Path, split: TransferSplit) -> Listing:
    """Ten images of each class to train on, ten to choose by, all the others to test on."""
    from torchvision.datasets import Flowers102

    return _list(Flowers102, folder, PARTS[split], "setid.mat", "imagelabels.mat", "jpg")


def _list(kind: Callable[..., Any], folder: Path, part: str, *needed: str) -> Listing:
    """Paths and labels of a torchvision data set; its loader hands us the path, so no picture is opened."""
    for file in needed:
        if not (folder / file).exists():
            raise LackError(f"{file} is missing")
    try:
        images = kind(folder.parent, split=part, loader=Path)
        pairs = [images[row] for row in range(len(images))]
        labelled = {path.relative_to(folder).as_posix(): int(label) for path, label in pairs}
    except Exception as error:  # the readers of .json and .mat files raise nearly anything on broken ones
        reason = printable(str(error))[:80] or type(error).__name__
        raise LackError(f"{' or '.join(needed[:-1])} is not the official file ({reason})") from error
    return make_listing(folder, labelled, tuple(images.classes))
