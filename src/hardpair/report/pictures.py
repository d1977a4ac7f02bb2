"""What the encoder sees: nearest neighbours beside a random encoder's, and the hardest pairs that were mined."""

import re
from typing import Any

from hardpair.report.files import Record, Run, mapping, objects
from hardpair.report.markup import Html, element, join, paragraph, section
from hardpair.report.scores import bars
from hardpair.report.words import count, numeric, percent

_PNG = re.compile(r"iVBORw0KGgo[A-Za-z0-9+/]+={0,2}")  # the first bytes of every PNG, then base64 alone
_MOST_PAIRS = 48


def neighbours(run: Run) -> Html:
    """For some images, the images nearest to them: by this encoder and by a random one."""
    title = "Nearest neighbours"
    queries = objects((run.neighbours or {}).get("queries"))
    if run.neighbours is None or not queries:
        return section("neighbours", title, _missing("No neighbours are on file.", run))
    intro = "For some images, those that each encoder finds most like them. A tick marks the same class."
    cards = element("div", *(_query(query) for query in queries), class_="queries")
    return section("neighbours", title, paragraph(intro), _agreement(run.neighbours), cards)


def _missing(what: str, run: Run) -> Html:
    return element("p", what, " ", element("code", run.command("evaluate")), " makes them.", class_="missing")


def _agreement(found: Record) -> Html:
    own, control = numeric(found.get("agreement")), numeric(found.get("control_agreement"))
    pairs = (("this encoder", own, "encoder"), ("random encoder", control, "control"))
    rows = [(name, 100 * value, kind) for name, value, kind in pairs if value is not None]
    if not rows:
        return join()
    return element("div", element("h3", "Neighbours of the same class"), bars(rows), class_="card compare")


def _query(query: Record) -> Html:
    image = mapping(query.get("image"))
    label = image.get("label")
    asked = element("figure", picture(image, "query"), element("figcaption", _label(image)), class_="asked")
    rows = [
        _row(name, objects(query.get(key)), label, kind)
        for name, key, kind in (("This encoder", "neighbours", "encoder"), ("Random encoder", "control", "control"))
    ]
    return element("article", asked, element("div", *rows, class_="rows"), class_="card query")


def _row(name: str, found: list[Record], label: Any, kind: str) -> Html:
    right = sum(label is not None and one.get("label") == label for one in found)
    tally = "" if label is None else f" · {right} of {len(found)} right"
    items = [_neighbour(one, label) for one in found]
    return element(
        "div", element("p", element("b", name), tally, class_="small"), element("ol", *items), class_=f"row {kind}"
    )


def _neighbour(one: Record, label: Any) -> Html:
    same = label is not None and one.get("label") == label
    tick = element("span", "✓", element("span", "same class", class_="hidden"), class_="tick") if same else join()
    similarity = numeric(one.get("similarity"))
    title = "" if similarity is None else f"similarity {similarity:.2f}"
    shown = element("span", picture(one, "neighbour"), tick, class_="frame")
    return element(
        "li", shown, element("span", _label(one), class_="label"), class_="same" if same else "other", title=title
    )


def picture(image: Record, role: str) -> Html:
    """The image inside the page itself; a plain square where the file holds none."""
    png, name = image.get("png"), f"{role}: image {image.get('id', '?')}, {_label(image)}"
    if not isinstance(png, str) or not _PNG.fullmatch(png):
        return element("span", "?", class_="picture", role="img", aria_label=f"{name}, not on file")
    return element("img", class_="picture", src=f"data:image/png;base64,{png}", alt=name)


def _label(image: Record) -> str:
    label = image.get("label")
    return "no label" if label is None else str(label)


def pairs(run: Run) -> Html:
    """The hardest mined pairs, and how many of all mined pairs were of one class."""
    title = "Hardest mined pairs"
    mined = run.pairs
    if mined is None:
        words = "No mined pairs are on file; training writes them when it ends, where the method mines pairs."
        return section("pairs", title, element("p", words, class_="missing"))
    cards = [_pair(pair) for pair in objects(mined.get("pairs"))[:_MOST_PAIRS]]
    shown = (
        element("div", *cards, class_="pairs") if cards else element("p", "There is no pair to show.", class_="missing")
    )
    return section("pairs", title, paragraph(*_explanation(mined)), _false_negatives(mined), shown)


def _explanation(mined: Record) -> list[str]:
    """What mining is, what it found, and what the labels say about it."""
    share = numeric(mined.get("share"))
    of_all = "" if share is None else f", {percent(100 * share)} of all,"
    return [
        "Two different images that are too near to each other make a hard negative: the method pushes them apart. ",
        f"It found {count(mined.get('mined'))} such pairs{of_all} among {count(mined.get('images'))} images; ",
        "below are the nearest. Where both show the same class the push does harm, and the pair is a false negative. ",
        "Labels are used here to look, never to train.",
    ]


def _false_negatives(mined: Record) -> Html:
    false, chance = numeric(mined.get("false_negatives")), numeric(mined.get("chance"))
    if false is None:
        reason = "These images have no labels" if mined.get("mined") else "Nothing was mined"
        return element("p", f"{reason}, so false negatives cannot be counted.", class_="small")
    rows = [("mined pairs", 100 * false, "false"), ("random pairs", 100 * (chance or 0), "control")]
    title = element("h3", "Pairs of the same class (false negatives)")
    return element("div", title, bars(rows if chance is not None else rows[:1]), class_="card compare")


def _pair(pair: Record) -> Html:
    sides = [mapping(pair.get(side)) for side in ("anchor", "negative")]
    both = [
        element("figure", picture(image, role), element("figcaption", _label(image)))
        for image, role in zip(sides, ("anchor", "negative"), strict=True)
    ]
    distance = numeric(pair.get("distance"))
    how_far = "" if distance is None else f"{distance:.2f} apart"
    foot = element("p", _verdict(sides[0].get("label"), sides[1].get("label")), element("span", how_far), class_="foot")
    return element("article", element("div", *both, class_="two"), foot, class_="card pair")


def _verdict(anchor: Any, negative: Any) -> Html:
    """Said by colour, by a sign and by words."""
    if anchor is None or negative is None:
        return element("span", "no labels", class_="chip unknown")
    if anchor == negative:
        return element("span", "= same class", class_="chip same")
    return element("span", "≠ different", class_="chip different")
