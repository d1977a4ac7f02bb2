"""The paper's seven tables as an HTML page and as text: published figures, and beneath each what runs have measured."""

import textwrap
from collections.abc import Sequence
from pathlib import Path

from hardpair.files import write_atomically
from hardpair.report.markup import Html, aligned, document, element, join, missing, paragraph, section, warning_list
from hardpair.report.paper.entries import read_entries
from hardpair.report.paper.measured import EMPTY, PaperTable, ShownTable, paper_tables
from hardpair.report.paper.published import NOT_GIVEN

_TITLE = "The paper's tables"
_LEDE = (
    "Hard negative pair mining in seven tables. Each shows first what the paper published, on ImageNet, and then, in "
    "tables of their own, what has been measured here, with data set and scale."
)
_COUNTS = "Measured cells: mean ± sample standard deviation over seeds (number of seeds), in per cent."
_NONE = "No run given here has a test score for this table."
_WIDTH = 120
_NAME = 40


def write_paper(runs: Sequence[Path], target: Path) -> str:
    """Write the page to `target` and return the same tables as text; raises UserError where a folder is no run."""
    entries, notes = read_entries(runs)
    tables = paper_tables(entries)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, render(tables, notes).encode())
    return plain_text(tables, notes)


def render(parts: Sequence[PaperTable], notes: Sequence[str]) -> str:
    """The whole page as text."""
    header = element(
        "header",
        element("p", "hardpair · published and measured", class_="kicker"),
        element("h1", _TITLE),
        element("p", _LEDE, class_="lede"),
        paragraph(_COUNTS),
    )
    left_out = section("left-out", "What does not count", warning_list(notes)) if notes else join()
    main = element("main", *(_section(part, place) for place, part in enumerate(parts, 1)), left_out)
    footer = element("footer", "Made by hardpair from the files of the runs. It works offline.")
    return document(_TITLE, ["page.css", "paper/paper.css"], header, main, footer)


def _section(part: PaperTable, number: int) -> Html:
    published = _card(part.published, "Published", f"table-{number}-published")
    measured = [_card(table, "Measured", f"table-{number}-{place}") for place, table in enumerate(part.measured, 1)]
    return section(f"table-{number}", part.title, published, *(measured or [missing(_NONE)]))


def _card(table: ShownTable, kind: str, anchor: str) -> Html:
    """A table with its heading; a wide one scrolls in a box of its own, which the keyboard reaches too."""
    heading = element("h3", element("span", kind, class_="chip"), " ", table.title, id=anchor)
    box = element("div", _table(table), class_="scroll", tabindex="0", role="region", aria_labelledby=anchor)
    notes = [element("p", note, class_="small") for note in table.notes]
    return element("div", heading, box, *notes, class_=f"card figures {kind.lower()}")


def _table(table: ShownTable) -> Html:
    kinds = ["word" if place < table.words else "figure" for place in range(len(table.headings))]
    top = [element("th", name, scope="col", class_=kind) for name, kind in zip(table.headings, kinds, strict=True)]
    rows = [_row(table, place) for place in range(len(table.rows))]
    return element("table", element("thead", element("tr", *top)), element("tbody", *rows))


def _row(table: ShownTable, place: int) -> Html:
    name, *cells = table.rows[place]
    return element("tr", element("th", name, scope="row"), *(_cell(table, place, 1 + at) for at in range(len(cells))))


def _cell(table: ShownTable, row: int, column: int) -> Html:
    text = table.rows[row][column]
    kind = "word" if column < table.words else "none" if text in (EMPTY, NOT_GIVEN) else "figure"
    if (row, column) not in table.best:
        return element("td", text, class_=kind)
    figure, gap, gain = text.partition(" ")
    return element("td", element("strong", figure), gap, gain, class_=kind)


def plain_text(parts: Sequence[PaperTable], notes: Sequence[str]) -> str:
    """Every table with its measured ones beneath, then what was left out."""
    blocks = [block for part in parts for block in _blocks(part)]
    return "\n\n".join([*blocks, _COUNTS, *(["\n".join(notes)] if notes else [])])


def _blocks(part: PaperTable) -> list[str]:
    measured = [_block(f"Measured. {table.title}", table) for table in part.measured]
    title = f"{part.title}\n{'=' * len(part.title)}"
    return [title, _block(part.published.title, part.published), *(measured or [_NONE])]


def _block(title: str, table: ShownTable) -> str:
    """Words to the left, figures to the right, a rule beneath the headings; notes wrapped below."""
    headings, *rows = aligned([line for cells in (table.headings, *table.rows) for line in _folded(cells)], table.words)
    notes = [line for note in table.notes for line in textwrap.wrap(note, _WIDTH)]
    return "\n".join([*textwrap.wrap(title, _WIDTH), headings, "-" * len(headings), *rows, *notes])


def _folded(cells: tuple[str, ...]) -> list[tuple[str, ...]]:
    """A row whose name is long goes on below, so that it does not push the figures off the screen."""
    first, *more = textwrap.wrap(cells[0], _NAME) or [""]
    return [(first, *cells[1:]), *((f"  {rest}", *("" for _ in cells[1:])) for rest in more)]
