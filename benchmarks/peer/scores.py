"""The lines of finished runs, and the table made of them."""

import json
from collections.abc import Iterable
from pathlib import Path
from statistics import mean, stdev
from typing import Any

PROTOCOLS = ("knn", "linear")
Line = dict[str, Any]


def read_lines(file: Path) -> list[Line]:
    """Every whole line; half a line left by a crash is passed over."""
    lines = []
    for text in file.read_text().splitlines() if file.exists() else []:
        try:
            lines.append(json.loads(text))
        except ValueError:
            continue
    return lines


def matching(lines: Iterable[Line], conditions: Line) -> list[Line]:
    """Lines of runs under these conditions."""
    return [line for line in lines if all(line.get(name) == value for name, value in conditions.items())]


def table(lines: list[Line], methods: Iterable[str]) -> str:
    """One line per method and protocol. We are compared with the better of lightly's optimisers for each protocol."""
    head = f"{'method':9}{'':8}{'ours':>14}{'lightly':>14}{'':7}{'difference':>11}  {'s/epoch':>13}  at least as good?"
    rows = [head]
    for protocol in PROTOCOLS:
        random = [line[protocol] for line in matching(lines, {"side": "random"})]
        if random:
            rows.append(f"{'random':9}{protocol:8}{_words(random):>14}{_words(random):>14}")
        rows += [_row(matching(lines, {"method": method}), method, protocol) for method in methods]
    return "\n".join(rows)


def _row(lines: list[Line], method: str, protocol: str) -> str:
    sides: dict[str, list[Line]] = {}
    for line in lines:
        sides.setdefault(line["side"], []).append(line)
    ours = sides.pop("ours", [])
    if not ours or not sides:
        return f"{method:9}{protocol:8} not finished"
    best = max(sides, key=lambda side: mean(line[protocol] for line in sides[side]))
    a, b = ([line[protocol] for line in part] for part in (ours, sides[best]))
    pace = "/".join(f"{mean(line['seconds_per_epoch'] for line in part):.1f}" for part in (ours, sides[best]))
    words = f"{method:9}{protocol:8}{_words(a):>14}{_words(b):>14} {best.removeprefix('lightly-'):6}"
    return f"{words}{mean(a) - mean(b):+11.2f}  {pace:>13}  {verdict(a, b)}"


def verdict(ours: list[float], lightly: list[float]) -> str:
    """Whether our mean is at most one standard deviation (of both sides, pooled) below lightly's."""
    if min(len(ours), len(lightly)) < 2:
        return "one seed cannot say"
    spread = mean([stdev(ours) ** 2, stdev(lightly) ** 2]) ** 0.5
    good = mean(ours) >= mean(lightly) - spread
    return f"yes, within one std ({spread:.2f})" if good else f"NO, more than one std ({spread:.2f}) below"


def _words(values: list[float]) -> str:
    return f"{mean(values):.2f} ± {stdev(values):.2f}" if len(values) > 1 else f"{mean(values):.2f}"
