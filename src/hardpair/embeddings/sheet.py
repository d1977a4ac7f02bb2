"""Contact sheets: one HTML page of pictures in groups, which works offline and asks nothing of the network."""

import base64
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from hardpair.errors import UserError
from hardpair.files import write_atomically
from hardpair.report.markup import Html, document, element, join

SIDE = 128  # pixels of a picture
QUALITY = 80


@dataclass(frozen=True)
class Card:
    """A picture and what is said below it."""

    pixels: NDArray[np.uint8] | None  # (3, S, S); None where the picture is gone
    name: str  # of the file
    notes: Sequence[str] = ()  # short lines


@dataclass(frozen=True)
class Group:
    """Pictures that belong together, such as a query and what was found."""

    title: str
    cards: Sequence[Card]
    note: str = ""
    first: Card | None = None  # set apart before the others: the query, the typical picture


def write_sheet(
    target: Path, title: str, lede: str, groups: Iterable[Group], *, kicker: str, columns: bool = False
) -> Path:
    """Write the page, with small groups beside each other if in columns; returns where it is."""
    header = element(
        "header", element("p", kicker, class_="kicker"), element("h1", title), element("p", lede, class_="lede")
    )
    body = element("main", *(_section(group) for group in groups), class_="columns" if columns else "")
    footer = element("footer", "Made by hardpair. It works offline.")
    write_atomically(target, document(title, ["page.css", "sheet.css"], header, body, footer).encode())
    return target


def refuse_other_page(target: Path) -> None:
    """Before any work: refuse to write a page over something else."""
    if target.suffix.lower() != ".html":
        raise UserError(f"{target}: give a name that ends in .html")
    if not target.parent.is_dir():
        raise UserError(f"{target}: there is no folder {target.parent}")
    if target.is_file():
        with target.open("rb") as file:
            if b"hardpair</title>" in file.read(2000):
                return
    if target.exists():
        raise UserError(f"{target}: holds something else; give another name, or delete it")


def jpeg(pixels: NDArray[np.uint8], quality: int = QUALITY) -> bytes:
    """(3, S, S) → a JPEG file."""
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0))).save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def _section(group: Group) -> Html:
    note = element("p", group.note, class_="small") if group.note else join()
    first = element("div", _figure(group.first), class_="first") if group.first else join()
    cards = element("ol", *(element("li", _figure(card)) for card in group.cards), class_="sheet")
    return element("section", element("h2", group.title), note, element("div", first, cards, class_="group"))


def _figure(card: Card) -> Html:
    notes = [element("span", note, class_="note") for note in card.notes]
    caption = element("figcaption", element("span", card.name, class_="file", title=card.name), *notes)
    if card.pixels is None:
        words = element("span", "not there any more", class_="gone", role="img", aria_label=f"{card.name}: missing")
        return element("figure", words, caption)
    source = f"data:image/jpeg;base64,{base64.b64encode(jpeg(card.pixels)).decode()}"
    return element("figure", element("img", src=source, alt=card.name, loading="lazy"), caption)
