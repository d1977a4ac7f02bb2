"""Figures of sweeps, in one style: accuracy against compute for comparisons, curves over epochs for ablations."""

import io
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from matplotlib.transforms import ScaledTranslation, Transform

from hardpair.recipes import SUPERVISED
from hardpair.sweep.results import Effect, OverSeeds, Summary

# Colours that stay apart for colour-blind eyes too, as far as eleven can; markers tell the rest.
COLOURS = ("#c1272d", "#0077bb", "#117733", "#ee9933", "#aa4499", "#332288", "#44aa99", "#999933", "#882255", "#66bbee")
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "<", ">", "h")
INK, MUTED, GRID = "#222222", "#666666", "#e6e6e6"
RANDOM: dict[str, Any] = {"color": MUTED, "linewidth": 1.2, "linestyle": (0, (4, 3))}
"""The line of the random encoder."""
KINDS = ("png", "svg")
PANELS = (("linear", "Linear classifier"), ("knn", "Nearest neighbours"))
BESIDE = 6.0  # points between variants in the same place, which would hide each other
SAME, LEAST, WIDE = 1.05, 1.3, 5.0  # ratios of compute: taken for the same; shown at least; too wide for an even scale
Style = dict[str, Any]


def draw_comparison(
    about: str, rows: Sequence[Summary], methods: Sequence[str], kinds: Sequence[str] = KINDS
) -> dict[str, bytes]:
    """Accuracy against compute, one colour and marker per method, as the content of a file of each kind."""
    figure, panels = new_figure("Accuracy against compute", about)
    by_compute = sorted(rows, key=lambda row: row.variant.forwards)
    curves = {label: own for label in methods if (own := [r for r in by_compute if r.variant.label == label])}
    joined = any(len(own) > 1 for own in curves.values())
    shifts = dict.fromkeys(curves, 0.0) if joined else _shifts(by_compute)
    styles = {label: _method_style(methods, label, line=joined) for label in curves}
    for axes, (name, heading) in zip(panels, PANELS, strict=True):
        _dress(axes, heading, "compute: forwards per image, over the whole run")
        for label, own in curves.items():
            points = [(row.variant.forwards, row.figure(name)) for row in own]
            _series(axes, points, styles[label], shift=shifts[label])
            if _has_own_control(own[0], name, rows):
                hollow = {**styles[label], "markerfacecolor": "white", "linestyle": ""}
                control = own[0].variant.forwards, own[0].mean(f"{name}_control")
                axes.plot(*control, **hollow, transform=_beside(axes, shifts[label]), zorder=2)
        _random_level(axes, OverSeeds(tuple(_shared_control(rows, name).values())))
        _scale_compute(axes, rows, name)
    panels[0].set_ylabel("top-1, per cent", color=INK)
    if any(shifts.values()):
        _remark(figure, "Methods of nearly the same\ncompute stand side by side.")
    best_first = sorted(curves, key=lambda label: -curves[label][-1].mean("linear"))
    names = {label: f"{label} (all labels)" if label == SUPERVISED else label for label in best_first}
    handles = [Line2D([], [], **styles[label], label=name) for label, name in names.items()]
    handles.append(Line2D([], [], **RANDOM, label="random encoder"))
    if any(_has_own_control(row, "linear", rows) for row in rows):
        hollow = {"marker": "o", "markeredgecolor": MUTED, "markerfacecolor": "white", "linestyle": ""}
        handles.append(Line2D([], [], **hollow, label="random encoder of the\nmethod's own shape"))
    _legend(figure, handles)
    return {kind: _content(figure, kind) for kind in kinds}


def draw_ablation(
    title: str, about: str, rows: Sequence[Summary], labels: Sequence[str], kinds: Sequence[str] = KINDS
) -> dict[str, bytes]:
    """Loss and accuracy against epochs, after the paper's Figure 2, as the content of a file of each kind."""
    figure, (left, right) = new_figure(title, about)
    for axes, name, heading in ((left, "loss", "Loss"), (right, "linear", "Linear classifier, top-1 in per cent")):
        _dress(axes, heading, "epoch")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
        for place, row in enumerate(rows):
            curve = row.curve(name)
            many = len(curve) > 12  # marks on every epoch of a long run would hide the line
            style = {**_mark(place), "marker": ""} if many else _mark(place)
            _series(axes, curve, style, shift=BESIDE * place if len(curve) == 1 else 0.0, band=len(curve) > 1)
        axes.autoscale_view()
        axes.set_xlim(0, rows[0].variant.recipe.epochs * 1.1)
    _random_level(right, rows[0].figure("linear_control"))
    handles = [Line2D([], [], **_mark(place), label=label) for place, label in enumerate(labels)]
    _legend(figure, [*handles, Line2D([], [], **RANDOM, label="random encoder")])
    remarks = []
    if any(len(row.curve("linear")) == 1 for row in rows):
        remarks.append("Points without a line: the last\nepoch, side by side.")
    if any(len(row.results) > 1 for row in rows):
        remarks.append("Bands and bars: ± one standard\ndeviation over seeds.")
    _remark(figure, *remarks)
    return {kind: _content(figure, kind) for kind in kinds}


def draw_effects(
    title: str, about: str, effects: Mapping[str, Sequence[Effect]], kinds: Sequence[str] = KINDS
) -> dict[str, bytes]:
    """A bar for each part and score, with its confidence interval, as the content of a file of each kind."""
    figure, panels = new_figure(title, about, left=0.24, right=0.98)
    for axes, (name, heading) in zip(panels, PANELS, strict=True):
        _dress(axes, heading, "points of top-1 that the part adds; lines: 95 % confidence", along="x")
        for place, one in enumerate(effects[name]):
            axes.barh(-place, one.mean, height=0.62, color=COLOURS[0] if place == 0 else COLOURS[1], zorder=2)
            if one.margin is not None:
                axes.errorbar(one.mean, -place, xerr=one.margin, color=INK, linewidth=1.2, capsize=2.5, zorder=3)
        axes.axvline(0, color=MUTED, linewidth=1)
        axes.set_yticks([-place for place in range(len(effects[name]))], [one.label for one in effects[name]])
    panels[1].set_yticklabels([])
    return {kind: _content(figure, kind) for kind in kinds}


def _series(
    axes: Axes, points: Sequence[tuple[float, OverSeeds]], style: Style, *, shift: float, band: bool = False
) -> None:
    """Means with their deviation over seeds as bars or a band; drawn so many points beside their place."""
    xs, means = [x for x, _ in points], [figure.mean for _, figure in points]
    spreads = [figure.std or 0.0 for _, figure in points]
    lower, upper = ([m + sign * s for m, s in zip(means, spreads, strict=True)] for sign in (-1, 1))
    if band:
        axes.plot(xs, means, **style, linewidth=1.6, zorder=3)
        axes.fill_between(xs, lower, upper, color=style["color"], alpha=0.14, linewidth=0)
        return
    line: Style = {"linewidth": 1.6, "elinewidth": 1.2, "capsize": 2.5, "zorder": 3}
    bars = spreads if any(spreads) else None
    axes.errorbar(xs, means, yerr=bars, **style, **line, transform=_beside(axes, shift))
    axes.update_datalim(
        [*zip(xs, lower, strict=True), *zip(xs, upper, strict=True)]
    )  # matplotlib misses what is beside


def _scale_compute(axes: Axes, rows: Sequence[Summary], name: str) -> None:
    """Room for every point and control; a logarithmic scale where methods are far apart."""
    costs = [row.variant.forwards for row in rows]
    axes.update_datalim([(row.variant.forwards, row.mean(f"{name}_control")) for row in rows])
    middle = fmean((min(costs), max(costs)))
    axes.update_datalim([(edge, axes.dataLim.y0) for edge in (middle / LEAST**0.5, middle * LEAST**0.5)])
    if max(costs) / min(costs) > WIDE:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(10, subs=(1, 2, 5)))
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))  # 1000, not a power of ten
    axes.margins(x=0.1, y=0.06)
    axes.autoscale_view()


def _shared_control(rows: Sequence[Summary], name: str) -> dict[int, float]:
    """Seed → the control that most methods have."""
    values: dict[int, Counter[float]] = {}
    for row in rows:
        for result in row.results:
            values.setdefault(result.seed, Counter())[getattr(result, f"{name}_control")] += 1
    return {seed: counter.most_common(1)[0][0] for seed, counter in values.items()}


def _has_own_control(row: Summary, name: str, rows: Sequence[Summary]) -> bool:
    """Whether the encoder has a shape of its own."""
    shared = _shared_control(rows, name)
    return any(getattr(result, f"{name}_control") != shared[result.seed] for result in row.results)


def _shifts(by_compute: Sequence[Summary]) -> dict[str, float]:
    """How many points to draw each method beside its place, so that those of the same compute do not hide others."""
    groups: list[list[Summary]] = []
    for row in by_compute:
        if groups and row.variant.forwards < SAME * groups[-1][0].variant.forwards:
            groups[-1].append(row)
        else:
            groups.append([row])
    return {
        row.variant.label: BESIDE * (place - (len(group) - 1) / 2)
        for group in groups
        for place, row in enumerate(group)
    }


def _method_style(methods: Sequence[str], label: str, *, line: bool) -> Style:
    if label == SUPERVISED:  # not a peer, so it looks different
        return {"color": "#333333", "marker": "*", "markersize": 9.5, "linestyle": ":" if line else ""}
    place = [name for name in methods if name != SUPERVISED].index(label)
    return {**_mark(place), "linestyle": "-" if line else ""}


def _mark(place: int) -> Style:
    return {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)], "markersize": 6.5}


def new_figure(title: str, about: str, *, left: float = 0.06, right: float = 0.81) -> tuple[Figure, tuple[Axes, Axes]]:
    """Two panels below a title and a few words about it, with room for a legend at the right."""
    figure = Figure(figsize=(11.5, 4.9), dpi=160, facecolor="white")
    first, second = figure.subplots(1, 2)
    lines = textwrap.wrap(about, 145)
    figure.subplots_adjust(left=left, right=right, bottom=0.125, top=0.88 - 0.045 * len(lines), wspace=0.16)
    figure.text(0.012, 0.955, title, fontsize=13, weight="bold", color=INK)
    figure.text(0.012, 0.93, "\n".join(lines), fontsize=9.5, color=MUTED, verticalalignment="top")
    return figure, (first, second)


def _dress(axes: Axes, heading: str, across: str, *, along: Literal["x", "y"] = "y") -> None:
    """Little ink except for the data; values are read along one axis."""
    axes.set_title(heading, loc="left", fontsize=11, color=INK, pad=8)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)
    axes.grid(axis=along, color=GRID, linewidth=1)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", length=0, labelcolor=INK, labelsize=9.5, pad=5)
    values = axes.yaxis if along == "y" else axes.xaxis
    values.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
    axes.set_xlabel(across, color=INK)


def _beside(axes: Axes, shift: float) -> Transform:
    return axes.transData + ScaledTranslation(shift / 72, 0, axes.figure.dpi_scale_trans)


def _random_level(axes: Axes, control: OverSeeds) -> None:
    """The random encoder: a line, and a band of its spread."""
    spread = control.std or 0.0
    axes.axhspan(control.mean - spread, control.mean + spread, color=MUTED, alpha=0.14, linewidth=0)
    axes.axhline(control.mean, **RANDOM)


def _remark(figure: Figure, *lines: str) -> None:
    figure.text(0.822, 0.125, "\n".join(lines), fontsize=8.5, color=MUTED)


def _legend(figure: Figure, handles: list[Any]) -> None:
    """At the right, where `new_figure` left room."""
    place: Style = {"loc": "upper left", "bbox_to_anchor": (0.815, 0.85)}
    figure.legend(handles=handles, **place, frameon=False, fontsize=9.5, labelcolor=INK)


def _content(figure: Figure, kind: str) -> bytes:
    """The figure as a file of that kind; the same figure gives the same bytes."""
    out = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "hardpair"}):
        figure.savefig(out, format=kind, metadata={"Date": None} if kind == "svg" else None)
    return out.getvalue()
