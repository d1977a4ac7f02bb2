"""Check this machine and a data set; every check yields findings, one line each. Light, so that help is fast."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Doctor:
    """Check this machine, and a set of images where one is given, before hours of training depend on them.

    One line a check: good, warning or bad, what was found, and what to do about it. The exit code is 1 where something
    is bad, else 0. It takes less than a minute; a large folder is looked at in part, and the line says so. Nothing is
    left behind.

    Args:
        data: also look at these images: "sample", "cifar10", a folder, packed or not, or a list of files.
        data_root: where downloaded sets are kept; nothing is downloaded.
        runs: where runs will be kept; its disk is tried.
        json: print the findings as JSON.
    """

    data: str | None = None
    data_root: Path = Path("data")
    runs: Path = Path("runs")
    json: bool = False


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's output."""

    check: str
    level: Literal["good", "warning", "bad"]
    found: str
    advice: str = ""  # what to do about it

    def line(self) -> str:
        """The finding as it is printed."""
        return f"{self.level:8} {self.check:14} {self.found}{'; ' * bool(self.advice)}{self.advice}"


def good(check: str, found: str) -> Finding:
    """Nothing needs to be done."""
    return Finding(check, "good", found)


def warning(check: str, found: str, advice: str) -> Finding:
    """Training works, but not as well as it could."""
    return Finding(check, "warning", found, advice)


def bad(check: str, found: str, advice: str = "") -> Finding:
    """Training would fail, or its result could not be trusted."""
    return Finding(check, "bad", found, advice)
