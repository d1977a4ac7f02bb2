"""What a check comes to."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hardpair.words import several

Level = Literal["good", "warning", "bad"]


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's."""

    check: str
    level: Level
    found: str
    advice: str = ""  # what to do about it

    def line(self) -> str:
        """To read."""
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


def summary(findings: Sequence[Finding], seconds: float) -> str:
    """The last line."""
    bads, warnings = (sum(f.level == level for f in findings) for level in ("bad", "warning"))
    verdict = f"{several(bads, 'check')} bad" if bads else "nothing is bad"
    return f"{verdict}, {several(warnings, 'warning')}; {several(len(findings), 'check')} in {seconds:.0f} s"
