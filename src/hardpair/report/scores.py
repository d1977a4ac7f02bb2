"""Scores beside those of a randomly initialised encoder: as bars on the page, as text in a terminal."""

from pathlib import Path
from typing import Any

from hardpair.errors import printable
from hardpair.report.markup import (
    METHOD_NAMES,
    Html,
    aligned,
    count,
    element,
    is_percentage,
    metric_name,
    missing,
    number,
    numeric,
    paragraph,
    percent,
    plain,
    section,
    signed,
)
from hardpair.report.run_files import Record, RunFiles, mapping, read_run
from hardpair.text import several

CONTROL = "randomly initialised"
"""What bars call the encoder beside the trained one."""

LEAST_CLASSES = 10  # with fewer, top-5 says little: of six classes a guess is right in 83 % of all cases
_FEW = 0.5  # a share of the labels from which on they are no longer few
_PROTOCOLS = {
    "linear": ("Linear classifier", "One linear layer, trained with labels on features that stay as they are."),
    "knn": ("Nearest neighbours (kNN)", "Each test image takes the class of the training images most like it."),
    "semi": ("Few labels", "The encoder is fine-tuned with a part of the labels."),
    "transfer": ("Transfer", "The encoder is used on a data set it never saw."),
    "distill": ("Distillation", "Another network learns from this one's answers, without labels."),
}
HEADINGS = ("protocol", "tested on", "metric", "encoder", "random", "gain")
"""Of a table of scores."""


def scores(run: RunFiles) -> Html:
    """The section of scores, or the command that makes them."""
    if not run.scores:
        command = element("code", run.evaluate_command)
        return section("scores", "Scores", missing("There are no scores yet. ", command, " measures them."))
    cards = [_card(score, run) for score in run.scores]
    intro = (
        "Each pair of bars is measured in the same way, with this encoder and with a randomly initialised one of the "
        "same shape. The gap is what was learned."
    )
    return section("scores", "Scores", paragraph(intro), element("div", *cards, class_="cards"))


def bars(rows: list[tuple[str, float, str]]) -> Html:
    """Horizontal bars out of a hundred, as (name, value, kind); the number beside each says it without colour."""
    items = []
    for name, value, kind in rows:
        fill = element("span", class_="fill", style=f"width:{min(max(value, 0.0), 100.0):.2f}%")
        track = element("span", fill, class_="track", aria_hidden="true")
        value_text = element("span", percent(value), class_="value")
        items.append(element("li", element("span", name, class_="name"), track, value_text, class_=kind))
    return element("ul", *items, class_="bars")


def protocol_title(score: Record) -> str:
    """The protocol in words, with what tells one score of it from another."""
    protocol, settings = str(score.get("protocol", "unnamed protocol")), mapping(score.get("settings"))
    title = _PROTOCOLS.get(protocol, (protocol, ""))[0]
    if protocol == "semi" and (numeric(settings.get("labels")) or 0.0) >= _FEW:
        title = "Fine-tuning"
    if "labelled_images" in score:
        return f"{title}: {count(score['labelled_images'])} labels"
    return f"{title}: {plain(settings['set'])}, {plain(settings.get('form'))}" if "set" in settings else title


def shown_metrics(score: Record) -> Record:
    """What was measured, without a top-5 of few classes."""
    classes, metrics = numeric(score.get("classes")), mapping(score.get("metrics"))
    few = classes is not None and classes < LEAST_CLASSES
    return {key: value for key, value in metrics.items() if not (few and key == "top5")}


def images_of(score: Record, part: str) -> Record:
    """What a score says of its train or test images."""
    return mapping(mapping(score.get("data")).get(part))


def _card(score: Record, run: RunFiles) -> Html:
    control = mapping(score.get("control"))
    metrics = [_metric(key, value, control.get(key)) for key, value in shown_metrics(score).items()]
    below = [element("p", text, class_="small") for text in (_where(score), _settings(score, run)) if text]
    above = [element("p", text, class_="small") for text in (_reading(score),) if text]
    return element("article", element("h3", protocol_title(score)), *above, *metrics, *below, class_="card score")


def _reading(score: Record) -> str:
    """How the score is made, in a sentence."""
    protocol, settings = str(score.get("protocol")), mapping(score.get("settings"))
    k, share = numeric(settings.get("k")), numeric(settings.get("labels"))
    if protocol == "knn" and k is not None:
        bank = numeric(images_of(score, "train").get("images"))
        voters = count(k if bank is None else min(k, bank))
        return f"Each test image takes the class that its {voters} nearest training images vote for (k = {voters})."
    if protocol == "semi" and share is not None:
        part = "all labels" if share >= 1 else f"{100 * share:g} % of the labels"
        return f"The encoder is fine-tuned with {part}."
    return _PROTOCOLS.get(protocol, ("", ""))[1]


def _metric(key: str, raw: Any, raw_control: Any) -> Html:
    value, control = numeric(raw), numeric(raw_control)
    if value is None or not is_percentage(key, value):
        shown = plain(raw) if value is None else number(value)
        return element("p", f"{metric_name(key)}: {shown}", class_="metric")
    rows = [("this encoder", value, "encoder")]
    gap: Html | str = ""
    if control is not None:
        rows.append((CONTROL, control, "control"))
        gap = element("span", f"{signed(value - control)} points", class_="gap")
    return element("div", element("h4", metric_name(key), " ", gap), bars(rows), class_="metric")


def _where(score: Record) -> str:
    test = images_of(score, "test")
    images = f", {count(test['images'])} images" if "images" in test else ""
    classes = f" of {count(score['classes'])} classes" if images and numeric(score.get("classes")) else ""
    rounded = f", in {plain(score['precision'])}" if "precision" in score else ""
    return f"Tested on {test['name']}{images}{classes}{rounded}." if "name" in test else ""


def _settings(score: Record, run: RunFiles) -> str:
    """The settings in which this score differs from others of its protocol: without them two cards look the same."""
    mine = mapping(score.get("settings"))
    peers = [mapping(other.get("settings")) for other in run.scores if other.get("protocol") == score.get("protocol")]
    differing = [key for key in mine if any(peer.get(key) != mine[key] for peer in peers)]
    return "With " + ", ".join(f"{key} {plain(mine[key])}" for key in differing) + "." if differing else ""


def main_score(run: RunFiles) -> tuple[Record, str, float, float | None] | None:
    """The score a reader asks for first, as (score, metric, value, control).

    On the run's own test images before any others; linear, then knn, then any; the newest of equals.
    """
    order, newest_first = {"linear": 0, "knn": 1}, run.all_scores[::-1]

    def rank(score: Record) -> tuple[bool, int]:
        name = images_of(score, "train").get("name")  # what files do not say counts as the run's own test images
        own = score.get("on", "test") == "test" and run.start.get("data", name) == name
        return not own, order.get(str(score.get("protocol")), 2)

    for score in sorted(newest_first, key=rank):
        metrics = mapping(score.get("metrics"))
        for key in ("top1", *metrics):
            value = numeric(metrics.get(key))
            if value is not None:
                return score, key, value, numeric(mapping(score.get("control")).get(key))
    return None


def what_was_done(run: RunFiles) -> str:
    """The encoder, the images and the method as half a sentence; what the files do not say is left out."""
    recipe, start = run.recipe, run.start
    name, width = str(recipe.get("encoder", "encoder")), numeric(recipe.get("width"))
    encoder = f"{'An' if name[:1].lower() in set('aeiou') else 'A'} {name}"
    encoder += "" if width in (None, 1.0) else f" of width {width:g}"
    if recipe.get("method") == "imported":
        return f"{encoder} with weights from {recipe.get('name')}, not trained here"
    learned = "learned" if run.steps else "was set to learn"  # without a log nobody knows whether it did
    images = f"{count(start['images'])} images of {start.get('data', recipe.get('data'))}" if "images" in start else ""
    images = images or f"the images of {recipe.get('data', 'an unnamed source')}"
    method = str(recipe.get("method", "an unnamed method"))
    labels = "with" if method == "supervised" else "without"
    return f"{encoder} {learned} from {images} {labels} labels{_epochs(run)}, by {METHOD_NAMES.get(method, method)}"


def _epochs(run: RunFiles) -> str:
    planned = numeric(run.recipe.get("epochs"))
    if planned is None:
        return ""
    done = numeric(run.steps[-1].get("epoch")) if run.steps and run.ending else None
    word = "epoch" if planned == 1 else "epochs"
    return f" for {planned:g} {word}" if done is None else f" for {number(done)} of {planned:g} {word}"


def summary_table(run: Path) -> str:
    """What was done, the scores beside those of a randomly initialised encoder, and any warnings, as lines of text."""
    read = read_run(run)
    lines = [f"{read.name}: {what_was_done(read)}."]
    rows = [row for score in read.scores for row in table_rows(score)]
    lines += ["", *aligned([HEADINGS, *rows], words=3)] if rows else [f"No scores yet: {read.evaluate_command}"]
    warned = len(read.events("warning"))
    logged = f"The log holds {several(warned, 'warning')}; the page shows them." if warned else None
    amiss = [text for text in (read.ending, logged, *read.notes) if text]
    return "\n".join(map(printable, [*lines, *([""] if amiss else []), *amiss]))


def table_rows(score: Record) -> list[tuple[str, ...]]:
    """One for each metric, under `HEADINGS`."""
    settings = mapping(score.get("settings"))
    share, k = numeric(settings.get("labels")), numeric(settings.get("k"))
    words = (
        settings.get("form"),
        None if share is None else f"{100 * share:g} %",
        None if k is None else f"k={k:g}",
        plain(score["precision"]) if "precision" in score else None,
    )
    protocol = " ".join(str(word) for word in (score.get("protocol", "?"), *words) if word)
    tested = str(images_of(score, "test").get("name", "?"))
    control = mapping(score.get("control"))
    rows: list[tuple[str, ...]] = []
    for key, raw in shown_metrics(score).items():
        value, random = numeric(raw), numeric(control.get(key))
        gain = "–" if value is None or random is None else signed(value - random)
        cells = ("–" if known is None else f"{known:.1f}" for known in (value, random))
        rows.append((protocol, tested, metric_name(key), *cells, gain))
    return rows
