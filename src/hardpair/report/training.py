"""How training went: curves as small multiples, and warnings in plain words."""

import math
from collections import Counter

from hardpair.report.curves import Panel, draw, panels, series
from hardpair.report.files import Record, Run
from hardpair.report.markup import Html, element, folded, join, paragraph, section
from hardpair.report.opening import ending
from hardpair.report.words import count, number, numeric, percent
from hardpair.words import several


def curves(run: Run) -> Html:
    """The section of curves, or what to do to get some."""
    steps = run.steps
    main, further = panels(steps)
    if not main and not further:
        missing = join(
            "No training step is logged. ", element("code", "hardpair pretrain"), " writes log.jsonl as it trains."
        )
        return section("training", "Training", element("p", missing, class_="missing"))
    shown = [_curve(panel, steps, f"curve{place}") for place, panel in enumerate(main)]
    folded_away = [_curve(panel, steps, f"more{place}") for place, panel in enumerate(further)]
    more = folded("More curves", element("div", *folded_away, class_="curves")) if further else join()
    intro = "The number beside each title is the last one logged."
    return section("training", "Training", paragraph(intro), element("div", *shown, class_="curves"), more)


def _curve(panel: Panel, steps: list[Record], prefix: str) -> Html:
    x, y, across = series(steps, panel.key)
    finite = [value for value in y if math.isfinite(value)]
    if not finite:  # no step or epoch says where they belong
        return join()
    ends = f"{panel.title}: from {number(finite[0])} to {number(finite[-1])} over {across} {x[0]:g} to {x[-1]:g}"
    latest = element("span", _latest(panel, steps), class_="latest")
    caption = element(
        "figcaption", element("h3", panel.title, " ", latest), element("p", panel.reading, class_="small")
    )
    svg = Html(draw(x, y, across, prefix=prefix, floor=panel.floor, share=panel.share))
    return element(
        "figure", caption, element("div", svg, role="img", aria_label=ends, class_="plot"), class_="card curve"
    )


def _latest(panel: Panel, steps: list[Record]) -> str:
    last = numeric(next((line[panel.key] for line in reversed(steps) if panel.key in line), None))
    if last is None:
        return "not finite"
    return percent(100 * last) if panel.share else number(last)


def warnings(run: Run) -> Html:
    """Everything a reader should know before believing the page; nothing where there is nothing."""
    found = [text for text in (ending(run), *_logged(run), *_not_finite(run), *_stale(run), *_skipped(run)) if text]
    found += run.notes
    if not found:
        return join()
    items = [
        element("li", element("span", "⚠", class_="icon", aria_hidden="true"), element("span", text)) for text in found
    ]
    return section("warnings", "Warnings", element("ul", *items, class_="warnings"))


def _logged(run: Run) -> list[str]:
    """The warnings of the log; one that came many times is said once."""
    lines = run.events("warning")
    times = Counter(str(line.get("text", "")) for line in lines)
    first = {str(line.get("text", "")): line.get("step") for line in reversed(lines)}
    return [_at(first[text]) + text + (f" ({count(many)} times)" if many > 1 else "") for text, many in times.items()]


def _at(step: object) -> str:
    return "" if numeric(step) is None else f"From step {count(step)}: "


def _not_finite(run: Run) -> list[str]:
    broken = Counter(
        key
        for line in run.steps
        for key, value in line.items()
        if isinstance(value, float) and not math.isfinite(value)
    )
    return [
        f"{key} was not a finite number in {count(many)} logged steps; the curve has gaps."
        for key, many in broken.items()
    ]


def _stale(run: Run) -> list[str]:
    """Scores of another recipe or of an earlier step than what the folder holds now."""
    own, last = run.recipe.get("hash"), max((numeric(line.get("step")) or 0 for line in run.steps), default=0)
    others = [s for s in run.scores if own and s.get("recipe_hash") not in (None, own)]
    others += [s for s in run.scores if (numeric(s.get("step")) or last) < last]
    if not others:
        return []
    names = ", ".join(sorted({str(score.get("protocol")) for score in others}))
    what = f"Scores of another recipe or of an earlier step than this folder holds now ({names})"
    return [f"{what}: {run.command('evaluate')} measures again."]


def _skipped(run: Run) -> list[str]:
    skipped = run.start.get("skipped")
    if not isinstance(skipped, list) or not skipped:
        return []
    files = several(len(skipped), "file")
    return [f"{files} could not be used and {'was' if len(skipped) == 1 else 'were'} skipped; the details say why."]
