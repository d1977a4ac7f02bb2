"""What may be said on the command line to the doctor; light, so that help answers at once."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Doctor:
    """Check this machine, and a set of images where one is given, before hours of training depend on them.

    One line a check: good, warning or bad, what was found, and what to do about it. The exit code is 1 where something
    is bad, else 0. It takes less than a minute; a large folder is looked at in part, and the line says so. Nothing is
    left behind.

    Args:
        data: also look at these images: "sample", "cifar10" or a folder, packed or not.
        data_root: where downloaded sets are kept; nothing is downloaded.
        runs: where runs will be kept; its disk is tried.
        json: print the findings as JSON.
    """

    data: str | None = None
    data_root: Path = Path("data")
    runs: Path = Path("runs")
    json: bool = False
