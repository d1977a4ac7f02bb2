"""One figure over several seeds: its mean and its spread."""

import statistics
from dataclasses import dataclass


@dataclass(frozen=True)
class OverSeeds:
    """The same figure of runs that differ in their seed alone."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Over seeds."""
        return statistics.fmean(self.values)

    @property
    def std(self) -> float | None:
        """Sample standard deviation over seeds; None for a single one."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def __format__(self, digits: str) -> str:
        spread = "" if self.std is None else f" ± {self.std:{digits}}"
        return f"{self.mean:{digits}}{spread}"

    def to_json(self) -> dict[str, float | None]:
        """Mean and deviation."""
        return {"mean": self.mean, "std": self.std}
