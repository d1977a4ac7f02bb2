"""The comparison as a picture: accuracy against compute, one colour and marker a method."""

from collections import Counter
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from hardpair.compare import words
from hardpair.compare.results import Row
from hardpair.compare.style import (
    INK,
    MUTED,
    RANDOM,
    beside,
    content,
    dress,
    legend,
    mark,
    new_figure,
    plain_numbers,
    random_level,
)
from hardpair.compare.table import About, title
from hardpair.recipes import SUPERVISED

PANELS = (("linear", "Linear classifier"), ("knn", "Nearest neighbours"))
BESIDE = 6.0  # points between methods of the same compute, which would hide each other
SAME, LEAST, WIDE = 1.05, 1.3, 5.0  # ratios of compute: taken for the same; shown at least; too wide for an even scale


def draw(about: About, rows: Sequence[Row], kinds: Sequence[str] = ("png", "svg")) -> dict[str, bytes]:
    """The figure as the content of a file of each kind."""
    state = words.so_far(about.runs_done, about.runs)
    figure, panels = new_figure("Accuracy against compute", f"{title(about)}{f'; {state}' if state else ''}")
    shifts = _shifts(about, rows)
    for axes, (name, heading) in zip(panels, PANELS, strict=True):
        _dress(axes, heading, rows)
        for method in about.methods:
            own = sorted((row for row in rows if row.method == method), key=lambda row: row.forwards)
            if own:
                _curve(axes, own, name, _style(about, method), shifts[method])
                if _has_own_control(own[0], name, _shared_control(rows, name)):
                    _own_control(axes, own, name, _style(about, method), shifts[method])
        _control(axes, rows, name)
        _set_limits(axes, rows, name)
    panels[0].set_ylabel("top-1, per cent", color=INK)
    if any(shifts.values()):
        figure.text(0.822, 0.125, "Methods of nearly the same\ncompute stand side by side.", fontsize=8.5, color=MUTED)
    _legend(figure, about, rows)
    return {kind: content(figure, kind) for kind in kinds}


def _curve(axes: Axes, rows: Sequence[Row], name: str, style: dict[str, Any], shift: float) -> None:
    """One method: a point a budget with its spread over seeds, joined where there are several."""
    spreads = [row.std(name) or 0.0 for row in rows]
    axes.errorbar(
        [row.forwards for row in rows],
        [row.mean(name) for row in rows],
        yerr=spreads if any(spreads) else None,
        **style,
        linewidth=1.6,
        elinewidth=1.2,
        capsize=2.5,
        transform=beside(axes, shift),
        zorder=3,
    )


def _control(axes: Axes, rows: Sequence[Row], name: str) -> None:
    """The random encoder that most methods share: a line, and a band of its spread."""
    shared = _shared_control(rows, name).values()
    random_level(axes, fmean(shared), stdev(shared) if len(shared) > 1 else 0.0)


def _own_control(axes: Axes, rows: Sequence[Row], name: str, style: dict[str, Any], shift: float) -> None:
    """A hollow mark, for a method whose encoder has a shape of its own."""
    hollow = {**style, "markerfacecolor": "white", "linestyle": ""}
    axes.plot(rows[0].forwards, rows[0].mean(f"{name}_control"), **hollow, transform=beside(axes, shift), zorder=2)


def _shared_control(rows: Sequence[Row], name: str) -> dict[int, float]:
    """Seed → the control that most methods have."""
    values: dict[int, Counter[float]] = {}
    for row in rows:
        for result in row.results:
            values.setdefault(result.seed, Counter())[getattr(result, f"{name}_control")] += 1
    return {seed: counter.most_common(1)[0][0] for seed, counter in values.items()}


def _has_own_control(row: Row, name: str, shared: dict[int, float]) -> bool:
    return any(getattr(result, f"{name}_control") != shared[result.seed] for result in row.results)


def _shifts(about: About, rows: Sequence[Row]) -> dict[str, float]:
    """How far to draw each method beside its true place, in points, for those of the same compute not to hide others.

    Curves stay where they are: their lines tell them apart.
    """
    if len(about.budgets) > 1:
        return dict.fromkeys(about.methods, 0.0)
    groups: list[list[Row]] = []
    for row in sorted(rows, key=lambda row: row.forwards):
        if groups and row.forwards < SAME * groups[-1][0].forwards:
            groups[-1].append(row)
        else:
            groups.append([row])
    return {row.method: BESIDE * (place - (len(group) - 1) / 2) for group in groups for place, row in enumerate(group)}


def _style(about: About, method: str) -> dict[str, Any]:
    """Colour, marker and line; without a line where there is one budget only."""
    line = len(about.budgets) > 1
    if method == SUPERVISED:  # not a peer, so it looks different
        return {"color": "#333333", "marker": "*", "markersize": 9.5, "linestyle": ":" if line else ""}
    place = [name for name in about.methods if name != SUPERVISED].index(method)
    return {**mark(place), "linestyle": "-" if line else ""}


def _dress(axes: Axes, heading: str, rows: Sequence[Row]) -> None:
    dress(axes, heading, "compute: forwards per image, over the whole run")
    costs = [row.forwards for row in rows]
    if max(costs) / min(costs) > WIDE:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(10, subs=(1, 2, 5)))
        axes.xaxis.set_minor_formatter(NullFormatter())
    plain_numbers(axes)  # a logarithmic scale has brought its own


def _set_limits(axes: Axes, rows: Sequence[Row], name: str) -> None:
    """Room for every point and its spread, which matplotlib does not see where it is drawn beside its place."""
    costs = [row.forwards for row in rows]
    for row in rows:
        mean, spread, control = row.mean(name), row.std(name) or 0.0, row.mean(f"{name}_control")
        axes.update_datalim([(row.forwards, value) for value in (mean - spread, mean + spread, control)])
    middle = fmean((min(costs), max(costs)))
    axes.update_datalim([(edge, axes.dataLim.y0) for edge in (middle / LEAST**0.5, middle * LEAST**0.5)])
    axes.margins(x=0.1, y=0.06)
    axes.autoscale_view()


def _legend(figure: Figure, about: About, rows: Sequence[Row]) -> None:
    """The methods from best to worst by the linear classifier, at the largest budget; then what the rest means."""
    ranked = sorted({row.method: row.mean("linear") for row in rows}.items(), key=lambda item: -item[1])
    names = {method: f"{method} (all labels)" if method == SUPERVISED else method for method, _ in ranked}
    handles = [Line2D([], [], **_style(about, method), label=name) for method, name in names.items()]
    handles.append(Line2D([], [], **RANDOM, label="random encoder"))
    if any(_has_own_control(row, "linear", _shared_control(rows, "linear")) for row in rows):
        hollow: dict[str, Any] = {"marker": "o", "markeredgecolor": MUTED, "markerfacecolor": "white"}
        handles.append(Line2D([], [], **hollow, linestyle="", label="random encoder of the\nmethod's own shape"))
    legend(figure, handles)
