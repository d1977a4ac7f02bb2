"""HTML from plain Python, and numbers and names as people read them.

HTML is escaped by construction: a string enters a page unescaped only as `Html`.
"""

import json
import re
from collections.abc import Sequence
from datetime import datetime
from html import escape
from importlib import resources
from typing import Any

from hardpair.text import duration as in_words

_VOID = frozenset({"img", "link", "meta"})
# Control codes, halves of letters (names of files need not be text), and marks that turn the direction of what follows.
_UNFIT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")

_THIN = "\N{NARROW NO-BREAK SPACE}"  # keeps a number and its unit on one line
_MINUS = "\N{MINUS SIGN}"
_LARGEST = 1e100
_METRICS = {"top1": "top-1", "top5": "top-5", "mean_per_class": "mean per class", "map11": "11-point mAP"}
METHOD_NAMES = {
    "hnpm": "hard negative pair mining (HNPM)",
    "simclr": "SimCLR",
    "simclrv2": "SimCLRv2",
    "moco": "MoCo v2",
    "byol": "BYOL",
    "simsiam": "SimSiam",
    "cmc": "contrastive multiview coding (CMC)",
    "cpc": "contrastive predictive coding (CPC v2)",
    "infomin": "InfoMin",
    "instdisc": "instance discrimination (InstDisc)",
    "supervised": "supervised training",
}


class Html(str):
    """Text that is already HTML; every other string is escaped on its way into a page."""

    __slots__ = ()


def _text(words: str) -> str:
    return escape(_UNFIT.sub("\N{REPLACEMENT CHARACTER}", words))


def join(*parts: str) -> Html:
    """One piece of HTML of several; plain strings are escaped."""
    return Html("".join(part if isinstance(part, Html) else _text(part) for part in parts))


def element(tag: str, *content: str, **attributes: str) -> Html:
    """`<tag attribute="value">content</tag>`; `class_` becomes `class`, `aria_label` becomes `aria-label`."""
    opening = "".join(f' {name.strip("_").replace("_", "-")}="{_text(value)}"' for name, value in attributes.items())
    if tag in _VOID:
        return Html(f"<{tag}{opening}>")
    return Html(f"<{tag}{opening}>{join(*content)}</{tag}>")


def section(anchor: str, title: str, *content: str) -> Html:
    """A part of the page with its heading, which also names it to screen readers."""
    heading = element("h2", title, id=anchor)
    return element("section", heading, *content, aria_labelledby=anchor)


def paragraph(*content: str) -> Html:
    """A paragraph of running text."""
    return element("p", *content, class_="prose")


def missing(*content: str) -> Html:
    """What stands in the place of something that is not there, with the command that makes it."""
    return element("p", *content, class_="missing")


def table(rows: list[tuple[str, str]], caption: str) -> Html:
    """Two columns: what, and its value."""
    body = [element("tr", element("th", name, scope="row"), element("td", value)) for name, value in rows]
    return element("table", element("caption", caption), element("tbody", *body))


def folded(summary: str, *content: str) -> Html:
    """Detail that opens on demand."""
    return element("details", element("summary", summary), element("div", *content, class_="inside"))


def warning_list(texts: Sequence[str]) -> Html:
    """Warnings, each with its sign."""
    icon = element("span", "⚠", class_="icon", aria_hidden="true")
    return element("ul", *(element("li", icon, element("span", text)) for text in texts), class_="warnings")


def document(title: str, styles: Sequence[str], *body: str, policy: str = "") -> str:
    """A whole page that asks nothing of the network; styles are files of this package.

    With a Content-Security-Policy browsers refuse what it does not allow, whatever comes to stand in the page.
    """
    package = resources.files("hardpair.report")
    css = "\n".join(package.joinpath(name).read_text(encoding="utf-8") for name in styles)
    allowed = element("meta", http_equiv="Content-Security-Policy", content=policy) if policy else join()
    head = element(
        "head",
        element("meta", charset="utf-8"),
        allowed,
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{title} · hardpair"),
        # Without an icon of its own a page makes the browser ask for one.
        element("link", rel="icon", href="data:,"),
        element("style", Html(css)),
    )
    return "<!doctype html>\n" + element("html", head, element("body", *body), lang="en-GB") + "\n"


def aligned(rows: Sequence[Sequence[str]], words: int) -> list[str]:
    """Rows as lines of text: the first columns hold words and line up on the left, the others on the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place < words else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def numeric(value: Any) -> float | None:
    """A finite number, or None for whatever else a file may hold, numbers too large to draw or average among it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -_LARGEST <= value <= _LARGEST else None


def percent(value: float) -> str:
    """45.12 → 45.1 %."""
    return f"{value:.1f}{_THIN}%"


def number(value: float) -> str:
    """About three figures, whatever the size."""
    if value != 0 and abs(value) < 1e-3:
        return f"{value:.1e}".replace("-", _MINUS)
    digits = ",.0f" if abs(value) >= 100 else ".1f" if abs(value) >= 10 else ".3g"
    return f"{value:{digits}}".replace("-", _MINUS)


def count(value: Any) -> str:
    """5000 → 5,000; a dash where the file does not say."""
    known = numeric(value)
    return "–" if known is None else f"{known:,.0f}"


def signed(value: float) -> str:
    """+12.1 or −3.0."""
    return f"{value:+.1f}".replace("-", _MINUS)


def duration(seconds: float) -> str:
    """210.3 → 3 min 30 s."""
    return re.sub(r"(\d) ", rf"\1{_THIN}", in_words(seconds))


def day(text: str) -> str:
    """2026-03-03T10:00:00 → 3 March 2026; text that is no date stays as it is."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return f"{moment.day} {moment:%B %Y}"


def metric_name(key: str) -> str:
    """top1 → top-1."""
    return _METRICS.get(key, key.replace("_", " "))


def is_percentage(key: str, value: float) -> bool:
    """Whether a metric is a share of a hundred, so that a bar means something."""
    known = key.startswith("top") or "accuracy" in key or key in _METRICS
    return known and 0 <= value <= 100


def plain(value: Any) -> str:
    """A value of a JSON file as one line of text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
