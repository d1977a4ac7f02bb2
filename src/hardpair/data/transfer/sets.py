"""The seven transfer sets as their authors published them, in the order of the paper's table."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hardpair.errors import UserError

Metric = Literal["top1", "mean_per_class", "map11"]
# Only these sets have a validation split, so this is no `Split`.
TransferSplit = Literal["train", "validation", "train+validation", "test"]


@dataclass(frozen=True)
class TransferSet:
    """What a set should hold and how it is judged."""

    title: str  # as the tables call it
    metric: Metric
    classes: int
    train: int  # images, without those of validation
    validation: int
    test: int
    address: str
    folder: str  # below the root

    def count(self, split: TransferSplit) -> int:
        """Number of images of a split."""
        counts = {"train": self.train, "validation": self.validation, "test": self.test}
        return sum(counts[part] for part in split.split("+"))


class LackError(Exception):
    """What a set lacks; the message is one short line."""


class MissingSetError(UserError):
    """A set that is not there, or not whole: the message says what is missing, where it belongs and where to get it."""

    def __init__(self, wanted: TransferSet, folder: Path, lack: str) -> None:
        super().__init__(f"{folder}: {lack}; this folder should hold {wanted.title} from {wanted.address}")


TRANSFER_SETS: dict[str, TransferSet] = {
    "food101": TransferSet(
        title="Food101",
        metric="top1",
        classes=101,
        train=68_175,
        validation=7_575,
        test=25_250,
        address="https://data.vision.ee.ethz.ch/cvl/datasets_extra/food-101/",
        folder="food-101",
    ),
    "cifar10": TransferSet(
        title="CIFAR-10",
        metric="top1",
        classes=10,
        train=45_000,
        validation=5_000,
        test=10_000,
        address="https://www.cs.toronto.edu/~kriz/cifar.html",
        folder="cifar-10-batches-bin",
    ),
    "sun397": TransferSet(
        title="SUN397",
        metric="top1",
        classes=397,
        train=15_880,
        validation=3_970,
        test=19_850,
        address="https://vision.princeton.edu/projects/2010/SUN/",
        folder="SUN397",
    ),
    "cars": TransferSet(
        title="Cars",
        metric="top1",
        classes=196,
        train=6_494,
        validation=1_650,
        test=8_041,
        address="https://ai.stanford.edu/~jkrause/cars/car_dataset.html (which is gone; copies are about)",
        folder="stanford_cars",
    ),
    "pets": TransferSet(
        title="Pets",
        metric="mean_per_class",
        classes=37,
        train=2_940,
        validation=740,
        test=3_669,
        address="https://www.robots.ox.ac.uk/~vgg/data/pets/",
        folder="oxford-iiit-pet",
    ),
    "voc2007": TransferSet(
        title="VOC 2007",
        metric="map11",
        classes=20,
        train=2_501,
        validation=2_510,
        test=4_952,
        address="http://host.robots.ox.ac.uk/pascal/VOC/voc2007/",
        folder="VOCdevkit/VOC2007",
    ),
    "flowers102": TransferSet(
        title="Flowers",
        metric="mean_per_class",
        classes=102,
        train=1_020,
        validation=1_020,
        test=6_149,
        address="https://www.robots.ox.ac.uk/~vgg/data/flowers/102/",
        folder="flowers-102",
    ),
}
