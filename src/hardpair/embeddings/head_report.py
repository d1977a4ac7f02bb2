"""How good a head is, measured on labels it was not fitted on: per class, in all, and how far to trust it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpair.report.markup import aligned
from hardpair.text import several

BINS, IN_A_BIN = 15, 20  # of the calibration error; with fewer labels there are fewer bins, else it measures chance
LEAST_BINS = 2  # else it would only compare two means
NORMAL_95 = 1.959964
MOST_LINES = 40  # classes that are printed; the rest is in the head's file


@dataclass(frozen=True)
class ClassReport:
    """One class; None where nothing could be measured: it was never held out, or never predicted."""

    name: str
    labels: int  # that the head was fitted on
    measured: float  # of them on pictures that it was not fitted on
    precision: float | None
    recall: float | None
    f1: float | None


@dataclass(frozen=True)
class Report:
    """Accuracy and calibration on labelled pictures that the head had not seen."""

    measured: int  # labelled pictures that were held out, each once or several times
    how: str  # they were held out
    accuracy: float  # share that is right
    low: float  # of its 95 % interval by the number of pictures (Wilson)
    high: float
    calibration_error: float  # expected: how far probabilities are from the share that is right, on average; or nan
    classes: tuple[ClassReport, ...]

    def facts(self) -> dict[str, Any]:
        """For JSON, which knows no nan."""
        return {name: None if value != value else value for name, value in asdict(self).items()}

    def lines(self) -> Iterator[str]:
        """A table, the worst classes first, and what it says in all."""
        worst = sorted(self.classes, key=lambda one: (one.f1 if one.f1 is not None else -1.0, one.name))
        yield from aligned([self._header(), *(self._cells(one) for one in worst[:MOST_LINES])], words=1)
        if len(worst) > MOST_LINES:
            yield f"… and {len(worst) - MOST_LINES:,} more, which are better"
        if self.measured:
            yield (
                f"right: {100 * self.accuracy:.1f} % of {several(self.measured, 'picture')} ({self.how}; "
                f"95 % interval {100 * self.low:.1f} to {100 * self.high:.1f} %)"
            )
            if math.isnan(self.calibration_error):
                yield f"too few labels to say how far probabilities are off; {LEAST_BINS * IN_A_BIN} would do"
            else:
                yield f"probabilities are off by {self.calibration_error:.3f} on average (expected calibration error)"

    @property
    def _known(self) -> bool:
        """Whether the labels that taught the head are known; not of one that was read from files."""
        return any(one.labels for one in self.classes)

    @property
    def _apart(self) -> bool:
        """Whether other pictures measure the head than teach it."""
        return any(one.measured != one.labels for one in self.classes)

    def _header(self) -> tuple[str, ...]:
        return ("class", *(["labels"] * self._known), *(["measured on"] * self._apart), "precision", "recall", "F1")

    def _cells(self, one: ClassReport) -> tuple[str, ...]:
        labels, measured = [f"{one.labels:,}"] * self._known, [f"{one.measured:,.0f}"] * self._apart
        return (one.name, *labels, *measured, *(_share(value) for value in (one.precision, one.recall, one.f1)))


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def report_of(
    predicted: NDArray[np.int64],
    confidence: NDArray[np.float32],
    labels: NDArray[np.int64],
    names: Sequence[str],
    fitted_on: Sequence[int],
    how: str,
    *,
    times: int = 1,
) -> Report:
    """A report on held-out pictures.

    Args:
        predicted: (M,) the most probable class of each.
        confidence: (M,) its probability.
        labels: (M,).
        names: (C,) of the classes.
        fitted_on: (C,) labels of each class that the head was fitted on.
        how: the pictures were held out, in words.
        times: how often each was; M is so many times the number of pictures.
    """
    right = predicted == labels
    count = len(labels) // times
    accuracy = float(right.mean()) if count else math.nan
    low, high = wilson(accuracy, count) if count else (math.nan, math.nan)
    bins = min(BINS, count // IN_A_BIN)
    error = calibration_error(confidence, right, bins=bins) if bins >= LEAST_BINS else math.nan
    of_class = _per_class(predicted, labels, names, fitted_on, times)
    return Report(count, how, accuracy, low, high, error, tuple(of_class))


def _per_class(
    predicted: NDArray[np.int64], labels: NDArray[np.int64], names: Sequence[str], fitted: Sequence[int], times: int
) -> Iterator[ClassReport]:
    classes = len(names)
    hits = np.bincount(labels[predicted == labels], minlength=classes)
    actual, claimed = np.bincount(labels, minlength=classes), np.bincount(predicted, minlength=classes)
    for k, name in enumerate(names):
        precision = float(hits[k] / claimed[k]) if claimed[k] else None
        recall = float(hits[k] / actual[k]) if actual[k] else None
        f1 = float(2 * hits[k] / (actual[k] + claimed[k])) if actual[k] else None
        yield ClassReport(name, int(fitted[k]), float(actual[k] / times), precision, recall, f1)


def wilson(share: float, count: int) -> tuple[float, float]:
    """The 95 % interval of a share of so many trials (Wilson's score interval)."""
    z2 = NORMAL_95**2
    centre = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = NORMAL_95 / (1 + z2 / count) * math.sqrt(share * (1 - share) / count + z2 / (4 * count**2))
    return max(0.0, centre - half), min(1.0, centre + half)


def calibration_error(confidence: NDArray[Any], right: NDArray[np.bool_], *, bins: int = BINS) -> float:
    """Expected calibration error: |mean confidence - share right| in bins of equal width, weighted by their counts."""
    place = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    gap = np.bincount(place, weights=right - confidence.astype(np.float64), minlength=bins)
    return float(np.abs(gap).sum() / len(confidence))
