"""`hardpair search`: the nearest images of an embedding."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hardpair.cli.arguments import parse
from hardpair.errors import printable
from hardpair.text import several

PAGE = "search.html"


@dataclass(frozen=True)
class Search:
    """Find the images of EMB that are nearest to each QUERY by cosine similarity, and write a page of them.

    QUERY is a picture file, the name of an image in EMB (or the end of one), a folder of pictures, or the folder of
    another embedding by the same encoder: then the most similar pairs come first, which shows what two sets share.
    Pictures from elsewhere need the encoder that made EMB.

    Args:
        embedding: folder that hardpair embed wrote.
        queries: pictures, names of images in EMB, or folders.
        k: how many to find for each.
        index: use an approximate index, for millions of images (needs pip install 'hardpair[index]'). It is built once,
            a few minutes per million, and kept in EMB.
        csv: also write all that was found to this file.
        out: the page; EMB/search.html when not given.
        encoder: where the encoder of EMB is now, if it was moved.
        images: where the pictures of EMB are now, if they were moved.
        data_root: where downloaded sets are kept.
        device: for the encoder: auto, cpu, cuda, cuda:1 …
        threads: of the CPU; 0 leaves the choice to torch.
    """

    embedding: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="EMB")]
    queries: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="QUERY …")]
    k: Annotated[int, tyro.conf.arg(aliases=["-k"])] = 10
    index: bool = False
    csv: Path | None = None
    out: Path | None = None
    encoder: str | None = None
    images: Path | None = None
    data_root: Path = Path("data")
    device: str = "auto"
    threads: int = 0


def main(arguments: Sequence[str]) -> int:
    """Search, print the table, say where the page is."""
    options = vars(parse(Search, arguments, "hardpair search"))
    page = options.pop("out") or options["embedding"] / PAGE
    from hardpair.embeddings.search import search

    found = search(**options, page=page)
    for line in found.table():
        print(line)
    for part in found.asked:
        if part.broken:
            print(printable(f"{several(len(part.broken), 'picture')} could not be read, such as {part.broken[0]}"))
    if options["csv"] is not None:
        print(f"all of it: {options['csv']}")
    print(f"page: {page}")
    return 0
