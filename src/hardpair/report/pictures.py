"""What the encoder sees: nearest neighbours beside a randomly initialised encoder's, and the hardest mined pairs."""

import re
from typing import Any

from hardpair.report.markup import Html, count, element, join, missing, numeric, paragraph, percent, plain, section
from hardpair.report.run_files import Record, RunFiles, mapping, objects
from hardpair.report.scores import CONTROL, bars

_PNG = re.compile(r"iVBORw0KGgo[A-Za-z0-9+/]+={0,2}")  # the first bytes of every PNG, then base64 alone
_MOST_PAIRS = 48
_LONGEST_NAME = 13  # letters, which fit beneath a small picture in a line or two


def neighbours(run: RunFiles) -> Html:
    """For some images, the images nearest to them: by this encoder and by a randomly initialised one."""
    title = "Nearest neighbours"
    found = run.neighbours or {}
    queries = objects(found.get("queries"))
    if not queries:
        command = element("code", run.evaluate_command)
        return section("neighbours", title, missing("No neighbours are on file. ", command, " makes them."))
    where = f" of {plain(found['data'])}" if "data" in found else ""
    intro = f"For some images{where}, the images that each encoder finds most like them."
    if any(mapping(query.get("image")).get("label") is not None for query in queries):
        intro += " A tick marks the same class."
    cards = element("div", *(_query(query) for query in queries), class_="queries")
    return section("neighbours", title, paragraph(intro), _agreement(found), cards)


def _agreement(found: Record) -> Html:
    own, control = numeric(found.get("agreement")), numeric(found.get("control_agreement"))
    values = (("this encoder", own, "encoder"), (CONTROL, control, "control"))
    rows = [(name, 100 * value, kind) for name, value, kind in values if value is not None]
    if not rows:
        return join()
    return element("div", element("h3", "Neighbours of the same class"), bars(rows), class_="card compare")


def _query(query: Record) -> Html:
    image = mapping(query.get("image"))
    asked = element("figure", picture(image, "query"), element("figcaption", _caption(image)), class_="asked")
    rows = [
        _row(name, objects(query.get(key)), image.get("label"), kind)
        for name, key, kind in (
            ("This encoder", "neighbours", "encoder"),
            ("Randomly initialised encoder", "control", "control"),
        )
    ]
    return element("article", asked, element("div", *rows, class_="rows"), class_="card query")


def _row(name: str, found: list[Record], label: Any, kind: str) -> Html:
    right = sum(label is not None and one.get("label") == label for one in found)
    tally = "" if label is None else f" · {right} of {len(found)} right"
    items = element("ol", *(_neighbour(one, label) for one in found))
    return element("div", element("p", element("b", name), tally, class_="small"), items, class_=f"row {kind}")


def _neighbour(one: Record, label: Any) -> Html:
    same = label is not None and one.get("label") == label
    tick = element("span", "✓", element("span", "same class", class_="hidden"), class_="tick") if same else join()
    similarity = numeric(one.get("similarity"))
    title = "" if similarity is None else f"similarity {similarity:.2f}"
    shown = element("span", picture(one, "neighbour"), tick, class_="frame", title=title)
    return element("li", shown, _caption(one), class_="same" if same else "other")


def picture(image: Record, role: str) -> Html:
    """The image inside the page itself; a plain square where the file holds none."""
    known = [str(image[key]) for key in ("label", "file") if image.get(key) is not None]
    png, name = image.get("png"), ", ".join([f"{role}: image {image.get('id', '?')}", *known])
    if not isinstance(png, str) or not _PNG.fullmatch(png):
        return element("span", "?", class_="picture", role="img", aria_label=f"{name}, not on file")
    return element("img", class_="picture", src=f"data:image/png;base64,{png}", alt=name)


def _caption(image: Record) -> Html:
    """Label and file beneath a picture; the number of the image where it has neither."""
    label, file = image.get("label"), image.get("file")
    shown = [] if label is None else [element("span", str(label), class_="label")]
    if file is not None:
        shown.append(element("span", short_name(str(file)), class_="file", title=str(file)))
    return join(*shown) if shown else element("span", f"image {plain(image.get('id', '?'))}", class_="file")


def short_name(file: str) -> str:
    """photos/2021/IMG_20210731_183012.jpg → IMG_20…183012: both ends, which tell files apart."""
    name = file.rstrip("/").rpartition("/")[2]
    stem = name.rpartition(".")[0] or name
    half = _LONGEST_NAME // 2
    return stem if len(stem) <= _LONGEST_NAME else f"{stem[:half]}…{stem[-half:]}"


def pairs(run: RunFiles) -> Html:
    """The hardest mined pairs, and how many of all mined pairs were of one class; nothing if the method mines none."""
    mined, title = run.pairs, "Hardest mined pairs"
    if mined is None and not any("mined" in line for line in run.steps):
        return join()
    if mined is None:
        none = "No mined pairs are on file; training writes them when it ends."
        return section("pairs", title, missing(none))
    cards = [_pair(pair) for pair in objects(mined.get("pairs"))[:_MOST_PAIRS]]
    shown = element("div", *cards, class_="pairs") if cards else missing("There is no pair to show.")
    return section("pairs", title, paragraph(_explanation(mined)), _false_negatives(mined), shown)


def _explanation(mined: Record) -> str:
    """What mining is, what it found, and what the labels say about it."""
    share, labelled = numeric(mined.get("share")), numeric(mined.get("false_negatives")) is not None
    of_all = "" if share is None else f", {percent(100 * share)} of all,"
    about_labels = (
        " Where both show the same class the pair is a false negative: pushing it apart does harm. Labels are used "
        "here to look, never to train."
    )
    words = (
        "Two different images whose features are close make a hard negative: the method pushes them apart. "
        f"It found {count(mined.get('mined'))} such pairs{of_all} among {count(mined.get('images'))} images; "
        "these are the closest."
    )
    return words + about_labels if labelled else words


def _false_negatives(mined: Record) -> Html:
    false, chance = numeric(mined.get("false_negatives")), numeric(mined.get("chance"))
    if false is None:
        reason = "These images have no labels" if mined.get("mined") else "Nothing was mined"
        return element("p", f"{reason}, so false negatives cannot be counted.", class_="small")
    rows = [("mined pairs", 100 * false, "false")]
    rows += [] if chance is None else [("random pairs", 100 * chance, "control")]
    title = element("h3", "Pairs of the same class (false negatives)")
    return element("div", title, bars(rows), class_="card compare")


def _pair(pair: Record) -> Html:
    sides = {role: mapping(pair.get(role)) for role in ("anchor", "negative")}
    both = [
        element("figure", picture(image, role), element("figcaption", _caption(image))) for role, image in sides.items()
    ]
    distance = numeric(pair.get("distance"))
    how_far = "" if distance is None else f"{distance:.2f} apart"
    verdict = _verdict(*(image.get("label") for image in sides.values()))
    foot = element("p", verdict, element("span", how_far), class_="foot")
    return element("article", element("div", *both, class_="two"), foot, class_="card pair")


def _verdict(anchor: Any, negative: Any) -> Html:
    """Said by colour, by a sign and by words; nothing where a label is missing."""
    if anchor is None or negative is None:
        return join()
    if anchor == negative:
        return element("span", "= same class", class_="chip same")
    return element("span", "≠ different", class_="chip different")
