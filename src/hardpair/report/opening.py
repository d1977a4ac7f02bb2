"""The top of the page: whose run, when, what was done and what came out, in one sentence."""

from typing import Any

from hardpair.report.files import Record, Run, mapping
from hardpair.report.markup import Html, element, join
from hardpair.report.words import (
    count,
    day,
    duration,
    is_percentage,
    method_name,
    metric_name,
    number,
    numeric,
    percent,
    plain,
    points,
)


def opening(run: Run) -> Html:
    """Title, date, the sentence and a strip of facts."""
    kicker = element("p", f"hardpair run · {_date(run)}" if _date(run) else "hardpair run", class_="kicker")
    sentence = element("p", what_was_done(run), "; ", _what_came_out(run), class_="lede")
    return element("header", kicker, element("h1", run.name), sentence, _facts(run))


def what_was_done(run: Run) -> str:
    """The encoder, the images and the method as half a sentence; what the files do not say is left out."""
    recipe, start = run.recipe, run.start
    images = f"{count(start['images'])} images of {start.get('data', recipe.get('data'))}" if "images" in start else ""
    images = images or f"the images of {recipe.get('data', 'an unnamed source')}"
    method = str(recipe.get("method", "an unnamed method"))
    labels = "with" if method == "supervised" else "without"
    return f"{_encoder(recipe)} {_learned(run)} from {images} {labels} labels{_epochs(run)}, by {method_name(method)}"


def _encoder(recipe: Record) -> str:
    name, width = str(recipe.get("encoder", "encoder")), numeric(recipe.get("width"))
    size = "" if width in (None, 1.0) else f" of width {width:g}"
    return f"{'An' if name[:1].lower() in set('aeiou') else 'A'} {name}{size}"


def _learned(run: Run) -> str:
    return "learned" if run.steps else "was set to learn"  # without a log nobody knows whether it did


def _epochs(run: Run) -> str:
    planned = numeric(run.recipe.get("epochs"))
    if planned is None:
        return ""
    done = numeric(run.steps[-1].get("epoch")) if run.steps and ending(run) else None
    return f" for {planned:g} epochs" if done is None else f" for {number(done)} of {planned:g} epochs"


def main_score(run: Run) -> tuple[Record, str, float, float | None] | None:
    """The score a reader asks for first, as (score, metric, value, control).

    On the run's own test images before any others; linear, then knn, then any; the newest of equals.
    """
    order, newest_first = {"linear": 0, "knn": 1}, run.all_scores[::-1]

    def rank(score: Record) -> tuple[bool, int]:
        return not _on_own_test_images(run, score), order.get(str(score.get("protocol")), 2)

    for score in sorted(newest_first, key=rank):
        metrics = mapping(score.get("metrics"))
        for key in ("top1", *metrics):
            value = numeric(metrics.get(key))
            if value is not None:
                return score, key, value, numeric(mapping(score.get("control")).get(key))
    return None


def _on_own_test_images(run: Run, score: Record) -> bool:
    """Whether it is on the test images of the set that the run learned from; what files do not say counts as yes."""
    name = _images(score, "train").get("name")
    return score.get("on", "test") == "test" and run.start.get("data", name) == name


def _images(score: Record, part: str) -> Record:
    return mapping(mapping(score.get("data")).get(part))


def _what_came_out(run: Run) -> Html:
    best = main_score(run)
    if best is None:
        return join("no score has been measured yet.")
    score, key, value, control = best
    shown = percent(value) if is_percentage(key, value) else number(value)
    result = element("strong", f"{score.get('protocol')} {metric_name(key)} {shown}")
    where = f" on {plain(judged_on)}" if (judged_on := _images(score, "test").get("name")) else ""
    if control is None:
        return join(result, f"{where}, with no random encoder to compare with.")
    return join(result, f"{where}, {points(value - control)} a random encoder of the same shape.")


def _date(run: Run) -> str:
    dates = [run.start.get("time"), *(score.get("date") for score in run.scores)]
    return next((day(date) for date in dates if isinstance(date, str)), "")


def _facts(run: Run) -> Html:
    recipe, start = run.recipe, run.start
    facts: list[tuple[str, str | None]] = [
        ("Method", _text(recipe.get("method"))),
        ("Encoder", _text(recipe.get("encoder"))),
        ("Parameters", count(start["parameters"]) if "parameters" in start else None),
        ("Image size", _image_size(recipe)),
        ("Device", _text(start.get("device"))),
        ("Training time", _training_time(run)),
    ]
    items = [element("div", element("dt", name), element("dd", value)) for name, value in facts if value]
    return element("dl", *items, class_="facts")


def _image_size(recipe: Record) -> str | None:
    if "image_size" not in recipe:
        return None
    smaller = f", views {recipe['view_size'] * 100:.0f} % of it" if recipe.get("view_size", 1) < 1 else ""
    return f"{recipe['image_size']} px{smaller}"


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _training_time(run: Run) -> str | None:
    """All parts of a run that was stopped and resumed, where each said how long it took."""
    seconds = [numeric(line.get("seconds")) for line in run.events("stop", "end")]
    known = [value for value in seconds if value is not None]
    return duration(sum(known)) if known else None


def ending(run: Run) -> str | None:
    """How training ended if it did not end well, in words."""
    last = next(iter(run.events("start", "resume", "stop", "end")[-1:]), None)
    if last is None or last["event"] == "end":
        return None
    if last["event"] == "stop":
        reason = str(last.get("reason", "no reason is given")).rstrip(".")
        return f"Training stopped early at step {count(last.get('step'))}: {reason}."
    return "The log has no end: training is still going on, or it was cut off. What follows is what there is so far."
