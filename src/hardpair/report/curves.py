"""Small curves as inline SVG, drawn by matplotlib and coloured by the page, so that dark mode reaches them."""

import io
import math
import re
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from hardpair.report.files import Record
from hardpair.report.words import numeric

# Stand-ins that matplotlib writes and the page's own colours replace.
_LINE, _INK, _GRID = "#0000f1", "#0000f2", "#0000f3"
_COLOURS = {_LINE: "var(--curve)", _INK: "var(--muted)", _GRID: "var(--rule)"}
_WIDTH, _HEIGHT = 320, 168
_MOST_POINTS = 400  # a log of a hundred thousand lines must not make a page of a hundred megabytes
_MOST_OWN = 20  # curves of a method's own; each takes a moment to draw
_NOT_CURVES = frozenset({"event", "step", "epoch", "time"})


@dataclass(frozen=True)
class Panel:
    """One small curve: what is logged under which key, and how to read it."""

    key: str
    title: str
    reading: str
    floor: float | None = None  # where the vertical axis starts, when zero means something
    share: bool = False  # of one, and read more easily in per cent


MAIN = (
    Panel("loss", "Loss", "What training lowers. Where pairs are mined, it rises as fewer are."),
    Panel(
        "mined", "Share of pairs mined", "At 0 % nothing is pushed apart; near 100 % mining no longer chooses.", 0, True
    ),
    Panel("spread", "Spread of features", "Falls to 0 when every image gets the same features.", 0),
    Panel("rank", "Effective rank", "Directions in use: falls to 1 when features collapse.", 0),
    Panel("learning_rate", "Learning rate", "The size of a step, as the schedule sets it.", 0),
    Panel("images_per_second", "Throughput", "Images per second; a dip means something held training up.", 0),
)
FURTHER = (
    Panel("positive", "Positive part of the loss", "Distance between two views of one image; lower is better.", 0),
    Panel("negative", "Negative part of the loss", "Falls as mined pairs are pushed further apart."),
    Panel("empty", "Images without a hard negative", "Near 100 % only the positive part still teaches.", 0, True),
    Panel("gradient_norm", "Gradient norm", "Steady is good; spikes often come before a broken run.", 0),
    Panel("data_wait", "Waiting for data", "Near 0 is good; otherwise loading images slows training.", 0),
)


def panels(steps: list[Record]) -> tuple[list[Panel], list[Panel]]:
    """The panels to show at once and those to fold away, for whichever keys were logged."""
    keys = dict.fromkeys(key for line in steps for key, value in line.items() if numeric(value) is not None)
    known = {panel.key for panel in (*MAIN, *FURTHER)}
    own = [_own(key) for key in keys if key not in known and key not in _NOT_CURVES][:_MOST_OWN]
    return [panel for panel in MAIN if panel.key in keys] + own, [panel for panel in FURTHER if panel.key in keys]


def _own(key: str) -> Panel:
    return Panel(key, key.replace("_", " ").capitalize(), "Logged by this method.")


def series(steps: list[Record], key: str) -> tuple[list[float], list[float], str]:
    """Where, what, and the name of the horizontal axis; a value that is not finite leaves a gap."""
    across = "epoch" if all(numeric(line.get("epoch")) is not None for line in steps) else "step"
    points = [(numeric(line.get(across)), numeric(line.get(key))) for line in steps if key in line]
    placed = [(x, math.nan if y is None else y) for x, y in points if x is not None]
    thinned = _thin(placed)
    return [x for x, _ in thinned], [y for _, y in thinned], across


def _thin(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Means of neighbours, so few that the page stays small."""
    size = math.ceil(len(points) / _MOST_POINTS)
    if size <= 1:
        return points
    return [_middle(points[start : start + size]) for start in range(0, len(points), size)]


def _middle(group: list[tuple[float, float]]) -> tuple[float, float]:
    finite = [y for _, y in group if math.isfinite(y)]
    return sum(x for x, _ in group) / len(group), sum(finite) / len(finite) if finite else math.nan


def draw(
    x: list[float], y: list[float], across: str, *, prefix: str, floor: float | None = None, share: bool = False
) -> str:
    """One curve as an `<svg>` element whose ids all start with `prefix`."""
    figure = Figure(figsize=(_WIDTH / 72, _HEIGHT / 72), dpi=72)
    figure.subplots_adjust(left=0.15, right=0.97, bottom=0.2, top=0.95)
    axes = figure.add_subplot()
    (line,) = axes.plot(x, y, color=_LINE, linewidth=2, solid_capstyle="round", solid_joinstyle="round")
    line.set_gid("line")
    axes.plot(x[-1:], y[-1:], "o", color=_LINE, markersize=6, clip_on=False)
    _dress(axes, across, floor)
    axes.yaxis.set_major_formatter(FuncFormatter(_in_percent if share else _as_is))
    axes.fill_between(x, y, axes.get_ylim()[0], color=_LINE, alpha=0.09, linewidth=0)
    return _inline(figure, prefix)


def _dress(axes: Axes, across: str, floor: float | None) -> None:
    axes.margins(x=0.01, y=0.12)
    axes.set_ylim(*axes.get_ylim())  # what is drawn later must not move it
    if floor is not None:
        axes.set_ylim(bottom=floor)
    axes.spines[:].set_visible(False)
    axes.grid(axis="y", color=_GRID, linewidth=1)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, pad=6, labelsize=11, labelcolor=_INK)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(FuncFormatter(_as_is))
    axes.set_xlabel(across, color=_INK, fontsize=11, labelpad=1)


def _as_is(value: float, _: int | None) -> str:
    return f"{value:g}"


def _in_percent(value: float, _: int | None) -> str:
    return f"{100 * value:g} %"


def _inline(figure: Figure, prefix: str) -> str:
    """The figure as markup that lives well among other figures on one page."""
    out = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": prefix}):
        figure.savefig(
            out, format="svg", transparent=True, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))
        )
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r" font-family: [^;]*;| transform=\"rotate\(-0[^\"]*\"", "", svg)  # the page's own typeface
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}-", svg)  # ids are unique in a figure, not in a page
    svg = re.sub(r'<svg[^>]*?viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1" aria-hidden="true">', svg, count=1)
    for stand_in, colour in _COLOURS.items():
        svg = svg.replace(stand_in, colour)
    return svg.strip()
