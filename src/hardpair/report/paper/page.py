"""The tables as one HTML page that asks nothing of the network."""

from collections.abc import Sequence

from hardpair.report.markup import Html, element, head, join, paragraph, section
from hardpair.report.paper.grid import Grid, Part
from hardpair.report.paper.lines import EMPTY
from hardpair.report.paper.published import NOT_GIVEN
from hardpair.report.paper.text import COUNTS, NONE

_TITLE = "The paper's tables"
_LEDE = (
    "Hard negative pair mining in seven tables. Each shows first what the paper published, on ImageNet, and then, in "
    "tables of their own, what has been measured here, with data set and scale."
)


def render(parts: Sequence[Part], notes: Sequence[str]) -> str:
    """The whole page as text."""
    header = element(
        "header",
        element("p", "hardpair · published and measured", class_="kicker"),
        element("h1", _TITLE),
        element("p", _LEDE, class_="lede"),
        paragraph(COUNTS),
    )
    main = element("main", *(_part(part, place) for place, part in enumerate(parts, 1)), _left_out(notes))
    footer = element("footer", "Made by hardpair from the files of the runs. It works offline.")
    top = head(_TITLE, "page.css", "paper/paper.css")
    return "<!doctype html>\n" + element("html", top, element("body", header, main, footer), lang="en-GB") + "\n"


def _left_out(notes: Sequence[str]) -> Html:
    if not notes:
        return join()
    items = [
        element("li", element("span", "⚠", class_="icon", aria_hidden="true"), element("span", text)) for text in notes
    ]
    return section("left-out", "What does not count", element("ul", *items, class_="warnings"))


def _part(part: Part, number: int) -> Html:
    published = _card(part.published, "Published", f"table-{number}-published")
    measured = [_card(grid, "Measured", f"table-{number}-{place}") for place, grid in enumerate(part.measured, 1)]
    return section(f"table-{number}", part.title, published, *(measured or [element("p", NONE, class_="missing")]))


def _card(grid: Grid, kind: str, anchor: str) -> Html:
    """A table with its heading; a wide one scrolls in a box of its own, which the keyboard reaches too."""
    heading = element("h3", element("span", kind, class_="chip"), " ", grid.title, id=anchor)
    box = element("div", _table(grid), class_="scroll", tabindex="0", role="region", aria_labelledby=anchor)
    notes = [element("p", note, class_="small") for note in grid.notes]
    return element("div", heading, box, *notes, class_=f"card figures {kind.lower()}")


def _table(grid: Grid) -> Html:
    kinds = ["word" if place < grid.words else "figure" for place in range(len(grid.headings))]
    top = [element("th", name, scope="col", class_=kind) for name, kind in zip(grid.headings, kinds, strict=True)]
    rows = [_row(grid, place) for place in range(len(grid.rows))]
    return element("table", element("thead", element("tr", *top)), element("tbody", *rows))


def _row(grid: Grid, place: int) -> Html:
    name, *cells = grid.rows[place]
    return element("tr", element("th", name, scope="row"), *(_cell(grid, place, 1 + at) for at in range(len(cells))))


def _cell(grid: Grid, row: int, column: int) -> Html:
    text = grid.rows[row][column]
    kind = "word" if column < grid.words else "none" if text in (EMPTY, NOT_GIVEN) else "figure"
    if (row, column) not in grid.best:
        return element("td", text, class_=kind)
    figure, gap, gain = text.partition(" ")
    return element("td", element("strong", figure), gap, gain, class_=kind)
