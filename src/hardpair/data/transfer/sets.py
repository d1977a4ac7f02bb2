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
    """What a set should hold and how it is evaluated."""

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


# fmt: off
TRANSFER_SETS: dict[str, TransferSet] = {  # title, metric, classes, train, validation, test, address, folder
    "food101": TransferSet(
        "Food101", "top1", 101, 68_175, 7_575, 25_250,
        "https://data.vision.ee.ethz.ch/cvl/datasets_extra/food-101/", "food-101",
    ),
    "cifar10": TransferSet(
        "CIFAR-10", "top1", 10, 45_000, 5_000, 10_000,
        "https://www.cs.toronto.edu/~kriz/cifar.html", "cifar-10-batches-bin",
    ),
    "sun397": TransferSet(
        "SUN397", "top1", 397, 15_880, 3_970, 19_850,
        "https://vision.princeton.edu/projects/2010/SUN/", "SUN397",
    ),
    "cars": TransferSet(
        "Cars", "top1", 196, 6_494, 1_650, 8_041,
        "https://ai.stanford.edu/~jkrause/cars/car_dataset.html (which is gone; copies are about)", "stanford_cars",
    ),
    "pets": TransferSet(
        "Pets", "mean_per_class", 37, 2_940, 740, 3_669,
        "https://www.robots.ox.ac.uk/~vgg/data/pets/", "oxford-iiit-pet",
    ),
    "voc2007": TransferSet(
        "VOC 2007", "map11", 20, 2_501, 2_510, 4_952,
        "http://host.robots.ox.ac.uk/pascal/VOC/voc2007/", "VOCdevkit/VOC2007",
    ),
    "flowers102": TransferSet(
        "Flowers", "mean_per_class", 102, 1_020, 1_020, 6_149,
        "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/", "flowers-102",
    ),
}
# fmt: on
