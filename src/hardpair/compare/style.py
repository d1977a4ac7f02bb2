"""How the figures look: colours, axes, and a figure as the content of a file."""

import io
import textwrap
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from matplotlib.transforms import ScaledTranslation, Transform

# Colours that stay apart for colour-blind eyes too, as far as eleven can; markers tell the rest.
COLOURS = ("#c1272d", "#0077bb", "#117733", "#ee9933", "#aa4499", "#332288", "#44aa99", "#999933", "#882255", "#66bbee")
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "<", ">", "h")
INK, MUTED, GRID = "#222222", "#666666", "#e6e6e6"
RANDOM: dict[str, Any] = {"color": MUTED, "linewidth": 1.2, "linestyle": (0, (4, 3))}
"""The line of the random encoder."""


def mark(place: int) -> dict[str, Any]:
    """Colour and marker of the one in that place."""
    return {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)], "markersize": 6.5}


def new_figure(title: str, about: str) -> tuple[Figure, tuple[Axes, Axes]]:
    """Two panels below a title and a few words about it, with room for a legend at the right."""
    figure = Figure(figsize=(11.5, 4.9), dpi=160, facecolor="white")
    left, right = figure.subplots(1, 2)
    lines = textwrap.wrap(about, 145)
    figure.subplots_adjust(left=0.06, right=0.81, bottom=0.125, top=0.88 - 0.045 * len(lines), wspace=0.16)
    figure.text(0.012, 0.955, title, fontsize=13, weight="bold", color=INK)
    figure.text(0.012, 0.93, "\n".join(lines), fontsize=9.5, color=MUTED, verticalalignment="top")
    return figure, (left, right)


def dress(axes: Axes, heading: str, across: str) -> None:
    """Little ink but for the data."""
    axes.set_title(heading, loc="left", fontsize=11, color=INK, pad=8)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)
    axes.grid(axis="y", color=GRID, linewidth=1)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", length=0, labelcolor=INK, labelsize=9.5, pad=5)
    axes.yaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
    axes.set_xlabel(across, color=INK)


def plain_numbers(axes: Axes) -> None:
    """Across, 1000 is 1000 and no power of ten."""
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def beside(axes: Axes, shift: float) -> Transform:
    """A little to the side of the true place, by so many points."""
    return axes.transData + ScaledTranslation(shift / 72, 0, axes.figure.dpi_scale_trans)


def random_level(axes: Axes, level: float, spread: float) -> None:
    """The random encoder: a line, and a band of its spread."""
    axes.axhspan(level - spread, level + spread, color=MUTED, alpha=0.14, linewidth=0)
    axes.axhline(level, **RANDOM)


def legend(figure: Figure, handles: list[Any]) -> None:
    """At the right, where `new_figure` left room."""
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0.815, 0.85)}
    figure.legend(handles=handles, **place, frameon=False, fontsize=9.5, labelcolor=INK)


def content(figure: Figure, kind: str) -> bytes:
    """The figure as a file of that kind; the same figure gives the same bytes."""
    out = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "hardpair"}):
        figure.savefig(out, format=kind, metadata={"Date": None} if kind == "svg" else None)
    return out.getvalue()
