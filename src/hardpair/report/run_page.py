"""The page of a run: one HTML file that holds everything it shows and asks nothing of the network."""

from pathlib import Path

from hardpair.files import write_atomically
from hardpair.report.markup import (
    Html,
    count,
    day,
    document,
    duration,
    element,
    folded,
    is_percentage,
    join,
    metric_name,
    number,
    numeric,
    paragraph,
    percent,
    plain,
    section,
    table,
)
from hardpair.report.pictures import neighbours, pairs
from hardpair.report.reproduce import how_to_reproduce
from hardpair.report.run_files import Record, RunFiles, read_run
from hardpair.report.scores import images_of, main_score, protocol_title, scores, what_was_done
from hardpair.report.training import curves, warnings


def write_report(run: Path) -> Path:
    """Write `report.html` into the run folder and return where it is; raises UserError where there is no run."""
    target = run / "report.html"
    write_atomically(target, render(read_run(run)).encode())
    return target


def render(run: RunFiles) -> str:
    """The whole page as text, in the order in which a reader asks."""
    parts = (scores, curves, warnings, neighbours, pairs, how_to_read, details)
    footer = element("footer", "Made by hardpair from the files of this run. It works offline.")
    return document(run.name, ["page.css"], opening(run), element("main", *(part(run) for part in parts)), footer)


def opening(run: RunFiles) -> Html:
    """Title, date, what was done and what came out in one sentence, and a strip of facts."""
    dates = [run.start.get("time"), *(score.get("date") for score in run.scores)]
    date = next((f" · {day(date)}" for date in dates if isinstance(date, str)), "")
    kicker = element("p", f"hardpair run{date}", class_="kicker")
    sentence = element("p", what_was_done(run), "; ", _what_came_out(run), class_="lede")
    return element("header", kicker, element("h1", run.name), sentence, _facts(run))


def _what_came_out(run: RunFiles) -> Html:
    best = main_score(run)
    if best is None:
        return join("no score has been measured yet.")
    score, key, value, control = best
    shown = percent(value) if is_percentage(key, value) else number(value)
    result = element("strong", f"{score.get('protocol')} {metric_name(key)} {shown}")
    where = f" on {plain(tested_on)}" if (tested_on := images_of(score, "test").get("name")) else ""
    if control is None:
        return join(result, f"{where}, with no randomly initialised encoder to compare with.")
    gap = f"{abs(value - control):.1f} points {'below' if value < control else 'above'}"
    return join(result, f"{where}, {gap} a randomly initialised encoder of the same shape.")


def _facts(run: RunFiles) -> Html:
    recipe, start = run.recipe, run.start
    parameters, features = numeric(start.get("parameters")), numeric(run.encoder.get("num_features"))
    facts = [
        ("Method", recipe.get("method")),
        ("Encoder", recipe.get("encoder")),
        ("Parameters", None if parameters is None else count(parameters)),
        ("Features", None if features is None else count(features)),
        ("Image size", _image_size(recipe)),
        ("Device", start.get("device")),
        ("Training time", _training_time(run)),
    ]
    items = [element("div", element("dt", name), element("dd", str(value))) for name, value in facts if value]
    return element("dl", *items, class_="facts")


def _image_size(recipe: Record) -> str | None:
    size, share = numeric(recipe.get("image_size")), numeric(recipe.get("view_size"))
    if size is None:
        return None
    return f"{size:g} px" if share is None or share >= 1 else f"{size:g} px, views {share * size:.0f}"


def _training_time(run: RunFiles) -> str | None:
    """All parts of a run that was stopped and resumed, where each said how long it took."""
    seconds = [numeric(line.get("seconds")) for line in run.events("stop", "end")]
    known = [value for value in seconds if value is not None]
    return duration(sum(known)) if known else None


def how_to_read(run: RunFiles) -> Html:
    """Three sentences for a reader who has never seen such a page."""
    labels = (
        "The encoder was trained with labels. "
        if run.recipe.get("method") == "supervised"
        else "The encoder learned from images alone; labels are used only afterwards, to evaluate and to look. "
    )
    control = (
        "A randomly initialised encoder of the same shape already tells some images apart, so what matters is the gap "
        "between the two, not the height of one bar. "
    )
    collapse = (
        "If the loss falls while spread or effective rank falls to its minimum, the features have collapsed: every "
        "image then looks the same to the encoder."
    )
    return section("reading", "How to read this", paragraph(labels, control, collapse))


def details(run: RunFiles) -> Html:
    """Recipe, environment, settings of the scores, data and commands, folded away."""
    parts = [
        folded("Recipe", table(_flat(run.recipe), "Every setting of this run")),
        folded("Environment", table(_environment(run), "What it ran on")) if run.start else "",
        *(
            folded(f"Score: {protocol_title(score)}", table(_flat(score), "As written in scores.jsonl"))
            for score in run.scores
        ),
        folded("How to reproduce", *how_to_reproduce(run)),
    ]
    return section("details", "Details", *parts)


def _flat(record: Record, prefix: str = "") -> list[tuple[str, str]]:
    """Nested objects as dotted names, one row each."""
    rows: list[tuple[str, str]] = []
    for key, value in record.items():
        name = f"{prefix}{key}"
        rows += _flat(value, f"{name}.") if isinstance(value, dict) and value else [(name, plain(value))]
    return rows


def _environment(run: RunFiles) -> list[tuple[str, str]]:
    rows = _flat({key: value for key, value in run.start.items() if key not in ("event", "skipped")})
    if isinstance(skipped := run.start.get("skipped"), list):
        rows += [(f"skipped file {place}", plain(item)) for place, item in enumerate(skipped, 1)]
    return rows
