"""Check this machine and a data set; every check yields findings, one line each. Light, so that help is fast."""

from dataclasses import dataclass
from typing import Literal


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
