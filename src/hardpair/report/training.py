"""How training went: curves as small multiples, and warnings in plain words.

Curves are inline SVG, drawn by matplotlib and coloured by the page, so that dark mode reaches them.
"""

import io
import math
import re
from collections import Counter
from dataclasses import dataclass, replace

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from hardpair.report.markup import (
    Html,
    count,
    element,
    folded,
    join,
    missing,
    number,
    numeric,
    paragraph,
    percent,
    section,
    warning_list,
)
from hardpair.report.run_files import Record, RunFiles
from hardpair.text import several

# Stand-ins that matplotlib writes and the page's own colours replace.
_LINE, _INK, _GRID = "#0000f1", "#0000f2", "#0000f3"
_COLOURS = {_LINE: "var(--curve)", _INK: "var(--muted)", _GRID: "var(--rule)"}
_WIDTH, _HEIGHT = 320, 168
_MOST_POINTS = 400  # a log of a hundred thousand lines must not make a page of a hundred megabytes
_MOST_OWN = 20  # curves of a method's own; each takes a moment to draw
_NOT_CURVES = frozenset({"event", "step", "epoch", "time"})
_RANK_ROWS = 512  # images of a batch that the effective rank is taken of


@dataclass(frozen=True)
class Panel:
    """One small curve: what is logged under which key, and how to read it."""

    key: str
    title: str
    reading: str
    floor: float | None = None  # where the vertical axis starts, when zero means something
    share: bool = False  # of one, and read more easily in per cent
    of: str = ""  # stands behind the last value


MAIN = (
    Panel("loss", "Loss", "What training lowers. Where pairs are mined, it rises as fewer are."),
    Panel("mined", "Share of pairs mined", "At 0 % no pair is pushed apart; at 100 % every pair is.", 0, True),
    Panel("spread", "Spread of features", "Falls to 0 when every image gets the same features.", 0),
    Panel("rank", "Effective rank", "Directions in use: falls to 1 when features collapse.", 0),
    Panel("learning_rate", "Learning rate", "As the schedule sets it.", 0),
    Panel("images_per_second", "Throughput", "Images per second; a dip means that something slowed training.", 0),
)
FURTHER = (
    Panel("positive", "Positive part of the loss", "Distance between two views of one image; lower is better.", 0),
    Panel("negative", "Negative part of the loss", "Falls as mined pairs are pushed further apart."),
    Panel("empty", "Images without a hard negative", "Near 100 % only the positive part still teaches.", 0, True),
    Panel("gradient_norm", "Gradient norm", "Steady is good; spikes often come before a broken run.", 0),
    Panel("data_wait", "Waiting for data", "Near 0 is good; otherwise loading images slows training.", 0),
)


def curves(run: RunFiles) -> Html:
    """The section of curves, or what to do to get some."""
    steps = run.steps
    main, further = panels(steps)
    if not main and not further:
        command = element("code", "hardpair pretrain")
        none = missing("No training step is logged. ", command, " writes log.jsonl as it trains.")
        return section("training", "Training", none)
    main = [_with_dimensions(panel, run) for panel in main]
    shown = [_curve(panel, steps, f"curve{place}") for place, panel in enumerate(main)]
    folded_away = [_curve(panel, steps, f"more{place}") for place, panel in enumerate(further)]
    more = folded("More curves", element("div", *folded_away, class_="curves")) if further else join()
    intro = "The number beside each title is the last one logged."
    return section("training", "Training", paragraph(intro), element("div", *shown, class_="curves"), more)


def panels(steps: list[Record]) -> tuple[list[Panel], list[Panel]]:
    """The panels to show at once and those to fold away, for whichever keys were logged."""
    keys = dict.fromkeys(key for line in steps for key, value in line.items() if numeric(value) is not None)
    known = {panel.key for panel in (*MAIN, *FURTHER)}
    own = [key for key in keys if key not in known and key not in _NOT_CURVES][:_MOST_OWN]
    logged = [Panel(key, key.replace("_", " ").capitalize(), "Logged by this method.") for key in own]
    return [panel for panel in MAIN if panel.key in keys] + logged, [panel for panel in FURTHER if panel.key in keys]


def _with_dimensions(panel: Panel, run: RunFiles) -> Panel:
    """A rank means something only beside the largest that there could be."""
    features, batch = numeric(run.encoder.get("num_features")), numeric(run.recipe.get("batch_size"))
    if panel.key != "rank" or features is None:
        return panel
    most = features if batch is None else min(batch, _RANK_ROWS) - 1
    limit = f" A batch of {count(batch)} shows at most {count(most)}." if most < features else ""
    reading = f"Directions in use, of {count(features)} dimensions; 1 means collapse.{limit}"
    return replace(panel, reading=reading, of=f" of {count(min(most, features))}")


def _curve(panel: Panel, steps: list[Record], prefix: str) -> Html:
    x, y, across = series(steps, panel.key)
    finite = [value for value in y if math.isfinite(value)]
    if not finite:  # no step or epoch says where they belong
        return join()
    ends = f"{panel.title}: from {number(finite[0])} to {number(finite[-1])} over {across} {x[0]:g} to {x[-1]:g}"
    heading = element("h3", panel.title, " ", element("span", _latest(panel, steps), class_="latest"))
    caption = element("figcaption", heading, element("p", panel.reading, class_="small"))
    svg = Html(draw(x, y, across, prefix=prefix, floor=panel.floor, share=panel.share))
    plot = element("div", svg, role="img", aria_label=ends, class_="plot")
    return element("figure", caption, plot, class_="card curve")


def _latest(panel: Panel, steps: list[Record]) -> str:
    last = numeric(next((line[panel.key] for line in reversed(steps) if panel.key in line), None))
    if last is None:
        return "not finite"
    return percent(100 * last) if panel.share else number(last) + panel.of


def series(steps: list[Record], key: str) -> tuple[list[float], list[float], str]:
    """Where, what, and the name of the horizontal axis; a value that is not finite leaves a gap."""
    across = "epoch" if all(numeric(line.get("epoch")) is not None for line in steps) else "step"
    points = [(numeric(line.get(across)), numeric(line.get(key))) for line in steps if key in line]
    thinned = _thin([(x, math.nan if y is None else y) for x, y in points if x is not None])
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
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %" if share else f"{value:g}"))
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
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel(across, color=_INK, fontsize=11, labelpad=1)


def _inline(figure: Figure, prefix: str) -> str:
    """The figure as markup that lives well among other figures on one page."""
    out = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": prefix}):
        figure.savefig(out, format="svg", transparent=True, metadata=nothing)
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r" font-family: [^;]*;| transform=\"rotate\(-0[^\"]*\"", "", svg)  # the page's own typeface
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}-", svg)  # ids are unique in a figure, not in a page
    svg = re.sub(r'<svg[^>]*?viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1" aria-hidden="true">', svg, count=1)
    for stand_in, colour in _COLOURS.items():
        svg = svg.replace(stand_in, colour)
    return svg.strip()


def warnings(run: RunFiles) -> Html:
    """Everything a reader should know before believing the page; nothing where there is nothing."""
    ending = [run.ending] if run.ending else []
    found = [*ending, *_logged(run), *_not_finite(run), *_stale(run), *_skipped(run), *run.notes]
    return section("warnings", "Warnings", warning_list(found)) if found else join()


def _logged(run: RunFiles) -> list[str]:
    """The warnings of the log; one that came many times is said once."""
    lines = run.events("warning")
    times = Counter(str(line.get("text", "")) for line in lines)
    first = {str(line.get("text", "")): line.get("step") for line in reversed(lines)}
    at = {text: "" if numeric(step) is None else f"From step {count(step)}: " for text, step in first.items()}
    return [at[text] + text + (f" ({count(many)} times)" if many > 1 else "") for text, many in times.items()]


def _not_finite(run: RunFiles) -> list[str]:
    values = ((key, value) for line in run.steps for key, value in line.items())
    broken = Counter(key for key, value in values if isinstance(value, float) and not math.isfinite(value))
    return [
        f"{key} was not a finite number in {several(many, 'logged step')}; the curve has gaps."
        for key, many in broken.items()
    ]


def _stale(run: RunFiles) -> list[str]:
    """Scores of another recipe or of an earlier step than what the folder holds now."""
    own, last = run.recipe.get("hash"), max((numeric(line.get("step")) or 0 for line in run.steps), default=0)
    others = [s for s in run.scores if own and s.get("recipe_hash") not in (None, own)]
    others += [s for s in run.scores if (numeric(s.get("step")) or last) < last]
    if not others:
        return []
    names = ", ".join(sorted({str(score.get("protocol")) for score in others}))
    what = f"Scores of another recipe or of an earlier step than this folder holds now ({names})"
    return [f"{what}: {run.evaluate_command} measures again."]


def _skipped(run: RunFiles) -> list[str]:
    skipped = run.start.get("skipped")
    if not isinstance(skipped, list) or not skipped:
        return []
    files = several(len(skipped), "file")
    return [f"{files} could not be used and {'was' if len(skipped) == 1 else 'were'} skipped; the details say why."]
