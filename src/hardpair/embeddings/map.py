"""`hardpair map`: the pictures of an embedding on a plane, as one page that works offline."""

import logging
import os
from pathlib import Path

from hardpair.embeddings.embedding import Embedding, open_embedding
from hardpair.embeddings.formats import FORMATS, write_format
from hardpair.embeddings.graph import neighbour_graph
from hardpair.embeddings.hard_pairs import hard_pairs
from hardpair.embeddings.map_page import Map, map_page
from hardpair.embeddings.page_pictures import open_pictures, tell_gone
from hardpair.embeddings.pictures import moved_to
from hardpair.embeddings.projection import FILE, projection, read_projection
from hardpair.embeddings.thumbnails import make_thumbnails
from hardpair.errors import UserError, require_range
from hardpair.files import write_atomically
from hardpair.machine import prepare_to_compute
from hardpair.text import several

PAGE = "map.html"
THUMBNAILS = 20_000  # in a page below 30 MB
MOST_THUMBNAILS = 200_000  # browsers open pages of a few hundred MB
log = logging.getLogger("hardpair")


def map(  # noqa: A001 - every verb is a function of its name
    embedding: Embedding | str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | None = None,
    images: str | os.PathLike[str] | None = None,
    thumbnails: int = THUMBNAILS,
    data_root: str | os.PathLike[str] = "data",
    threads: int = 0,
) -> Path:
    """Lay an embedding out on a plane and write the page to look at it; returns where the page is.

    Coordinates and clusters are kept in the embedding's folder (``map.npz``) and read from there the next time.

    Args:
        embedding: folder that `hardpair embed` wrote, or what `embed` returned.
        out: the page; map.html in that folder when not given.
        images: where the pictures are now, if they were moved.
        thumbnails: how many pictures the page holds at most; of more images, a sample that is spread over the map.
        data_root: where downloaded sets are kept.
        threads: of the CPU; 0 leaves the choice to torch.
    """
    require_range("thumbnails", thumbnails, 0, MOST_THUMBNAILS)
    opened = embedding if isinstance(embedding, Embedding) else open_embedding(os.fspath(embedding))
    target = opened.folder / PAGE if out is None else Path(out)
    _require_page(target)
    root = moved_to(images)
    prepare_to_compute(threads)
    count = several(len(opened), "image")
    log.info("1 of 4: the nearest neighbours of %s", count)
    graph = neighbour_graph(opened)
    if read_projection(opened) is None:
        log.info("2 of 4: a map of %s and its clusters (the first on a machine takes half a minute more)", count)
    else:
        log.info("2 of 4: the map is in %s", opened.folder / FILE)
    laid = projection(opened, graph)
    for kind in FORMATS:
        if (opened.folder / f"embedding.{kind}").is_file():  # that embed wrote for other programs
            write_format(opened, kind)
    log.info("3 of 4: hard pairs and thumbnails")
    typical = laid.typical(opened)
    pictures, what_helps = open_pictures(opened, images=root, data_root=Path(data_root))
    shown = make_thumbnails(pictures, laid.points, thumbnails, [row for rows in typical for row in rows])
    tell_gone(target, shown.missing, shown.missing + len(shown.rows), what_helps)
    content = map_page(Map(opened, graph, laid, hard_pairs(opened, graph), typical, shown))
    log.info("4 of 4: writing %.1f MB", len(content) / 1e6)
    write_atomically(target, content)
    return target


def _require_page(target: Path) -> None:
    """Before any work: a page can be written there, and nothing of the user's is lost."""
    if target.is_dir():
        raise UserError(f"{target}: is a folder; give the name of a page, such as {target / PAGE}")
    if target.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"{target}: a map is a page; give a name that ends in .html")
    if not target.parent.is_dir():
        raise UserError(f"{target.parent}: no such folder; make it, or write the page elsewhere with --out")
