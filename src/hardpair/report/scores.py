"""Scores as pairs of bars: this encoder, and a random one of the same shape."""

from typing import Any

from hardpair.report.files import Record, Run, mapping
from hardpair.report.markup import Html, element, join, paragraph, section
from hardpair.report.words import count, is_percentage, metric_name, number, numeric, percent, plain, signed

_PROTOCOLS = {
    "linear": ("Linear classifier", "One linear layer, trained with labels on features that stay as they are."),
    "knn": ("Nearest-neighbour vote", "Each test image takes the class of the training images most like it."),
    "semi": ("Few labels", "The encoder is fine-tuned with a small share of the labels."),
    "transfer": ("Transfer", "The encoder is used on a data set it never saw."),
    "distill": ("Distillation", "Another network learns from this one's answers, without labels."),
}


def scores(run: Run) -> Html:
    """The section of scores, or the command that makes them."""
    if not run.scores:
        missing = join("There are no scores yet. ", element("code", run.command("evaluate")), " measures them.")
        return section("scores", "Scores", element("p", missing, class_="missing"))
    cards = [_card(score, run) for score in run.scores]
    intro = "Each bar pair is measured in the same way; only the training differs. The gap is what was learned."
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
    protocol = str(score.get("protocol", "unnamed protocol"))
    title = _PROTOCOLS.get(protocol, (protocol, ""))[0]
    if "labelled_images" in score:
        return f"{title}: {count(score['labelled_images'])} labels"
    settings = mapping(score.get("settings"))
    return f"{title}: {plain(settings['set'])}, {plain(settings.get('form'))}" if "set" in settings else title


def _card(score: Record, run: Run) -> Html:
    reading = _PROTOCOLS.get(str(score.get("protocol")), ("", ""))[1]
    control = mapping(score.get("control"))
    metrics = [_metric(key, value, control.get(key)) for key, value in mapping(score.get("metrics")).items()]
    about = [element("p", text, class_="small") for text in (reading, _where(score), _settings(score, run)) if text]
    return element(
        "article", element("h3", protocol_title(score)), *about[:1], *metrics, *about[1:], class_="card score"
    )


def _metric(key: str, raw: Any, raw_control: Any) -> Html:
    value, control = numeric(raw), numeric(raw_control)
    if value is None or not is_percentage(key, value):
        shown = plain(raw) if value is None else number(value)
        return element("p", f"{metric_name(key)}: {shown}", class_="metric")
    rows = [("this encoder", value, "encoder")]
    gap: Html | str = ""
    if control is not None:
        rows.append(("random encoder", control, "control"))
        gap = element("span", f"{signed(value - control)} points", class_="gap")
    return element("div", element("h4", metric_name(key), " ", gap), bars(rows), class_="metric")


def _where(score: Record) -> str:
    test = mapping(mapping(score.get("data")).get("test"))
    images = f", {count(test['images'])} images" if "images" in test else ""
    return f"Tested on {test['name']}{images}." if "name" in test else ""


def _settings(score: Record, run: Run) -> str:
    """The settings in which this score differs from others of its protocol: without them two cards look the same."""
    mine = mapping(score.get("settings"))
    peers = [mapping(other.get("settings")) for other in run.scores if other.get("protocol") == score.get("protocol")]
    differing = [key for key in mine if any(peer.get(key) != mine[key] for peer in peers)]
    return "With " + ", ".join(f"{key} {plain(mine[key])}" for key in differing) + "." if differing else ""
