"""The ablation as a picture, after the paper's Figure 2: loss and accuracy against epochs."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from hardpair.ablate.results import Curve, Row
from hardpair.ablate.table import TITLES, About, title
from hardpair.compare import words
from hardpair.compare.style import MUTED, RANDOM, beside, content, dress, legend, mark, new_figure, random_level

BESIDE = 7.0  # points between variants that have one point each, at the same epoch


def draw(about: About, rows: Sequence[Row], kinds: Sequence[str] = ("png", "svg")) -> dict[str, bytes]:
    """The figure as the content of a file of each kind."""
    state = words.so_far(about.runs_done, about.runs)
    figure, (left, right) = new_figure(TITLES[about.which], f"{title(about)}{f'; {state}' if state else ''}")
    for axes, name, heading in ((left, "loss", "Loss"), (right, "linear", "Linear classifier, top-1 in per cent")):
        dress(axes, heading, "epoch")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
        for place, row in enumerate(rows):
            _curve(axes, row.curve(name), mark(place), shift=BESIDE * place)
        axes.set_xlim(0, about.epochs * 1.1)
    control = rows[0].figure("linear_control")
    random_level(right, control.mean, control.std or 0.0)
    handles = [Line2D([], [], **mark(place), label=_label(row)) for place, row in enumerate(rows)]
    legend(figure, [*handles, Line2D([], [], **RANDOM, label="random encoder")])
    figure.text(0.822, 0.125, "\n".join(_remarks(about, rows)), fontsize=8.5, color=MUTED)
    return {kind: content(figure, kind) for kind in kinds}


def _curve(axes: Axes, curve: Curve, style: dict[str, Any], shift: float) -> None:
    """The mean, and a band of its spread; a single point has a bar instead, beside its place to hide no other."""
    epochs, means = [epoch for epoch, _ in curve], [figure.mean for _, figure in curve]
    spreads = [figure.std or 0.0 for _, figure in curve]
    lower, upper = ([m + sign * s for m, s in zip(means, spreads, strict=True)] for sign in (-1, 1))
    if len(curve) == 1:
        bars: dict[str, Any] = {"yerr": spreads if any(spreads) else None, "capsize": 2.5}
        axes.errorbar(epochs, means, **bars, **style, transform=beside(axes, shift), zorder=3)
        axes.update_datalim([(epochs[0], lower[0]), (epochs[0], upper[0])])  # not seen where it is drawn beside
        axes.autoscale_view()
        return
    few = len(curve) <= 12  # marks on every epoch of a long run would hide the line
    axes.plot(epochs, means, **style if few else {**style, "marker": ""}, linewidth=1.6, zorder=3)
    axes.fill_between(epochs, lower, upper, color=style["color"], alpha=0.14, linewidth=0)


def _remarks(about: About, rows: Sequence[Row]) -> list[str]:
    single = any(len(row.curve("linear")) == 1 for row in rows)
    return [
        *["Points without a line: the last\nepoch, side by side."] * single,
        *["Bands and bars: ± one standard\ndeviation over seeds."] * (about.seeds > 1),
    ]


def _label(row: Row) -> str:
    return f"{row.variant.label} (base)" if row.variant.is_base else row.variant.label
