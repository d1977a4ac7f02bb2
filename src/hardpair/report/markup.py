"""HTML from plain Python, escaped by construction: a string enters a page unescaped only as `Html`."""

import re
from html import escape
from importlib import resources

_VOID = frozenset({"img", "link", "meta"})
# Control codes, halves of letters (names of files need not be text), and marks that turn the direction of what follows.
_UNFIT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


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


def paragraph(*content: str, kind: str = "prose") -> Html:
    """A paragraph of running text."""
    return element("p", *content, class_=kind)


def table(rows: list[tuple[str, str]], caption: str) -> Html:
    """Two columns: what, and its value."""
    body = [element("tr", element("th", name, scope="row"), element("td", value)) for name, value in rows]
    return element("table", element("caption", caption), element("tbody", *body))


def folded(summary: str, *content: str) -> Html:
    """Detail that opens on demand."""
    return element("details", element("summary", summary), element("div", *content, class_="inside"))


def head(title: str, *styles: str) -> Html:
    """The head of a page that asks nothing of the network; styles are files of this package."""
    package = resources.files("hardpair.report")
    css = "\n".join(package.joinpath(name).read_text(encoding="utf-8") for name in styles)
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{title} · hardpair"),
        # Without an icon of its own a page makes the browser ask for one.
        element("link", rel="icon", href="data:,"),
        element("style", Html(css)),
    )
