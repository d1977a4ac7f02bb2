"""Sets whose list files torchvision reads: Food101, Cars and Flowers.

torchvision takes a second to import, so each function imports it when it is called.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hardpair.data.layout import Listing
from hardpair.data.transfer.own_lists import PARTS, make_listing
from hardpair.data.transfer.sets import LackError, TransferSplit
from hardpair.errors import printable


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
