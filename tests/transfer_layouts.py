"""The seven transfer sets in small: plain images in the official layouts, and what a reader should make of them."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from scipy.io import savemat

from hardpair.data import Images
from hardpair.data.cifar10 import FILES
from hardpair.data.transfer import TRANSFER_SETS, TransferSet
from hardpair.data.transfer.lists import VOC_CLASSES

Label = int | tuple[int, ...]
STEP = 5  # between colours, more than JPEG can blur


@dataclass
class Small:
    """A small set: every image has a number that its colour tells."""

    wanted: TransferSet
    folder: Path
    truth: dict[str, dict[int, Label]] = field(default_factory=dict)  # official part → number → label
    files: dict[int, Path] = field(default_factory=dict)

    def paint(self, part: str, name: str, label: Label) -> None:
        """Add an image to an official part."""
        number = len(self.files)
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (14, 12), colour_of(number)).save(path, "JPEG", quality=100)
        self.files[number] = path
        self.truth.setdefault(part, {})[number] = label

    def write(self, name: str, *lines: str) -> None:
        """Add a list file."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")


def colour_of(number: int) -> tuple[int, int, int]:
    return 128, STEP * (number // 50), STEP * (number % 50)


def seen(images: Images) -> dict[int, Label]:
    """Number → label of what was read."""
    assert images.labels is not None
    assert images.labels.dtype == torch.int64
    middle = images.pixels[:, :, images.size // 2, images.size // 2].double()
    numbers = (middle[:, 1] / STEP).round() * 50 + (middle[:, 2] / STEP).round()
    labels = [tuple(label) if isinstance(label, list) else label for label in images.labels.tolist()]
    return dict(zip(numbers.long().tolist(), labels, strict=True))


def small(root: Path, name: str, classes: int, train: int, validation: int, test: int) -> Small:
    wanted = replace(TRANSFER_SETS[name], classes=classes, train=train, validation=validation, test=test)
    return Small(wanted, root / wanted.folder)


def write_food101(root: Path) -> Small:
    made = small(root, "food101", 3, train=12, validation=3, test=6)
    kinds = ("apple_pie", "baby_back_ribs", "sushi")
    for part, count in (("train", 5), ("test", 2)):
        lists = {kind: [f"{kind}/{part}{k}" for k in range(count)] for kind in reversed(kinds)}
        made.write(f"meta/{part}.json", json.dumps(lists))
        for kind, names in lists.items():
            for name in names:
                made.paint(part, f"images/{name}.jpg", kinds.index(kind))
    return made


def write_cifar10(root: Path) -> Small:
    made = small(root, "cifar10", 10, train=80, validation=20, test=20)
    made.folder.mkdir(parents=True)
    for part, files in FILES.items():
        for file in files:
            numbers = [len(made.files) + k for k in range(20)]
            colours = np.array([colour_of(number) for number in numbers], np.uint8).repeat(1024, axis=1)
            labels = np.arange(20, dtype=np.uint8)[:, None] % 10
            np.concatenate([labels, colours], axis=1).tofile(made.folder / file)
            made.files |= dict.fromkeys(numbers, made.folder / file)
            made.truth.setdefault(part, {}).update(zip(numbers, labels[:, 0].tolist(), strict=True))
    return made


def write_sun397(root: Path, lists: str = "Partitions/") -> Small:
    made = small(root, "sun397", 3, train=9, validation=3, test=6)
    kinds = ("/a/abbey", "/a/apartment_building/outdoor", "/y/youth_hostel")
    made.write("ClassName.txt", *kinds)
    for part, file, count in (("train", "Training_01.txt", 4), ("test", "Testing_01.txt", 2)):
        lines = [f"{kind}/sun_{part}{k}.jpg" for kind in kinds for k in range(count)]
        made.write(lists + file, *lines)
        for line in lines:
            made.paint(part, line[1:], kinds.index(line.rpartition("/")[0]))
    made.paint("unused", "a/abbey/sun_of_another_split.jpg", 0)
    return made


def write_cars(root: Path) -> Small:
    made = small(root, "cars", 3, train=11, validation=4, test=6)
    kinds = np.array(["AM General Hummer SUV 2000", "Acura RL Sedan 2012", "smart fortwo 2012"], object)
    labels = {"train": [0, 1, 2] * 4 + [1, 1, 0], "test": [2, 1, 0, 0, 1, 2]}
    for part, file in (("train", "devkit/cars_train_annos.mat"), ("test", "cars_test_annos_withlabels.mat")):
        rows = [(39, 116, 569, 375, label + 1, f"{k + 1:05}.jpg") for k, label in enumerate(labels[part])]
        kind = [(name, object) for name in ("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "fname")]
        made.write(file)
        savemat(made.folder / file, {"annotations": np.array([rows], dtype=kind)})
        for row in rows:
            made.paint(part, f"cars_{part}/{row[5]}", row[4] - 1)
    savemat(made.folder / "devkit/cars_meta.mat", {"class_names": kinds[None]})
    return made


def write_pets(root: Path) -> Small:
    made = small(root, "pets", 3, train=36, validation=6, test=9)
    breeds = ("Abyssinian", "american_bulldog", "american_pit_bull_terrier")
    for part, file, counts in (("train", "trainval", (15, 14, 13)), ("test", "test", (3, 3, 3))):
        names = [(f"{breed}_{part}{k}", b) for b, breed in enumerate(breeds) for k in range(counts[b])]
        made.write(f"annotations/{file}.txt", *(f"{name} {b + 1} {1 + (b > 0)} 1" for name, b in names))
        for name, b in names:
            made.paint(part, f"images/{name}.jpg", b)
    made.paint("unused", "images/Abyssinian_0.jpg", 0)
    return made


def write_voc2007(root: Path) -> Small:
    made = small(root, "voc2007", 20, train=5, validation=4, test=6)
    draw = np.random.default_rng(0)
    for part, file, count in (("train", "train", 5), ("validation", "val", 4), ("test", "test", 6)):
        names = [f"{len(made.files) + k:06}" for k in range(count)]
        labels = draw.choice((1, -1, 0), size=(count, 20))
        made.write(f"ImageSets/Main/{file}.txt", *names)
        for c, kind in enumerate(VOC_CLASSES):
            lines = (f"{name} {label:2}" for name, label in zip(names, labels[:, c], strict=True))
            made.write(f"ImageSets/Main/{kind}_{file}.txt", *lines)
        for name, row in zip(names, labels.tolist(), strict=True):
            made.paint(part, f"JPEGImages/{name}.jpg", tuple(row))
    return made


def write_flowers102(root: Path) -> Small:
    made = small(root, "flowers102", 102, train=3, validation=4, test=5)
    parts = {
        "trnid": ("train", [9, 2, 12]),
        "valid": ("validation", [1, 4, 5, 11]),
        "tstid": ("test", [3, 6, 7, 8, 10]),
    }
    labels = [1, 1, 102, 50, 102, 1, 3, 3, 50, 102, 3, 102]
    made.folder.mkdir(parents=True)
    savemat(made.folder / "setid.mat", {key: np.array([numbers]) for key, (_, numbers) in parts.items()})
    savemat(made.folder / "imagelabels.mat", {"labels": np.array([labels], np.uint8)})
    for part, numbers in parts.values():
        for number in numbers:
            made.paint(part, f"jpg/image_{number:05}.jpg", labels[number - 1] - 1)
    return made


WRITERS: dict[str, Callable[[Path], Small]] = {
    "food101": write_food101,
    "cifar10": write_cifar10,
    "sun397": write_sun397,
    "cars": write_cars,
    "pets": write_pets,
    "voc2007": write_voc2007,
    "flowers102": write_flowers102,
}
