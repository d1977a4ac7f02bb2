"""`hardpair clean`: what is there twice, what leaks between splits, what is odd, what may be labelled wrong.

Nothing is deleted: a table and a page say what was found, and a list names the files worth keeping.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hardpair.embeddings.clean_page import write_page
from hardpair.embeddings.csv_files import refuse_other
from hardpair.embeddings.duplicates import (
    EXACT,
    NEAR,
    SIMILAR,
    Links,
    Squares,
    exact_links,
    first_equal,
    groups,
    join_links,
    near_links,
    read_squares,
    similar_links,
    take,
)
from hardpair.embeddings.embedding import Embedding, open_embedding
from hardpair.embeddings.findings import COLUMNS, Catalogue, Cleaned, Group, make_group
from hardpair.embeddings.graph import Graph, neighbour_graph
from hardpair.embeddings.keep_list import refuse_list, write_list
from hardpair.embeddings.label_errors import LabelErrors, label_errors
from hardpair.embeddings.neighbours import Bank
from hardpair.embeddings.pictures import Pictures, moved_to
from hardpair.embeddings.sheet import refuse_other_page
from hardpair.errors import UserError, shown
from hardpair.machine import prepare_to_compute
from hardpair.text import several

TABLE, PAGE = "clean.csv", "clean.html"
ACROSS = 8  # nearest images of another embedding that are compared with each
FEWEST = 20  # images; among fewer, none is an outlier
OUTLYING = 3.5  # robust standard deviations of the logarithm of the distance to the neighbours, above the median
Folder = str | os.PathLike[str]
Doubtful = Literal["outliers", "labels"]


def clean(
    embedding: Folder | Embedding,
    *,
    against: Folder | Embedding | None = None,
    keep_list: Folder | None = None,
    without: Doubtful | Sequence[Doubtful] = (),
    out: Folder | None = None,
    images: Folder | None = None,
    data_root: Folder = "data",
    threads: int = 0,
) -> Cleaned:
    """Look for duplicates, leaks between splits, outliers and likely label errors; nothing is deleted.

    Writes ``clean.csv`` and ``clean.html``.

    Args:
        embedding: folder that `hardpair embed` wrote, or what `embed` returned.
        against: another embedding by the same encoder, such as of test images; what is in both counts as a leak.
        keep_list: a file (.txt) for the names of the files worth keeping: one of each group of duplicates.
        without: leave "outliers" or images with doubtful "labels" out of the keep list, too.
        out: folder for the table and the page; that of the embedding when not given.
        images: where the pictures are now, if they were moved.
        data_root: where downloaded sets are kept.
        threads: of the CPU; 0 leaves the choice to torch.
    """
    own = embedding if isinstance(embedding, Embedding) else open_embedding(os.fspath(embedding))
    other = against if against is None or isinstance(against, Embedding) else open_embedding(os.fspath(against))
    target = Path(own.folder if out is None else out)
    words = (without,) if isinstance(without, str) else without
    if unknown := [word for word in words if word not in ("outliers", "labels")]:
        raise UserError(f"without: must be outliers or labels, not {shown(unknown[0])}")
    _refuse(own, other, target, keep_list)
    prepare_to_compute(threads)
    pictures, why = _open_pictures(own, other, images, Path(data_root))
    found = look(own, other, pictures, target, notes=why)
    target.mkdir(parents=True, exist_ok=True)
    found.write_table(target / TABLE)
    write_page(target / PAGE, found, pictures)
    if keep_list is not None:
        found.notes.extend(write_list(Path(keep_list), found.kept(words), pictures[0]))
    return found


def _refuse(own: Embedding, other: Embedding | None, target: Path, keep_list: Folder | None) -> None:
    """What cannot be done, before any work."""
    if other is not None:
        own.require_same_encoder(other)
        if own.manifest["images_sha256"] == other.manifest["images_sha256"] and own.root == other.root:
            raise UserError("against: has the same images; give an embedding of others, or leave it out")
    if target.exists() and not target.is_dir():
        raise UserError(f"{target}: is a file; give a folder")
    if target.is_dir():
        refuse_other(target / TABLE, COLUMNS)
        refuse_other_page(target / PAGE)
    if keep_list is not None:
        refuse_list(Path(keep_list), own)


def _open_pictures(
    own: Embedding, other: Embedding | None, images: Folder | None, data_root: Path
) -> tuple[list[Pictures], list[str]]:
    """Of one embedding or two; none, and why, where a set is not there any more."""
    root = moved_to(images)
    try:
        pictures = [Pictures(own, root=root, data_root=data_root)]
        return pictures + ([Pictures(other, data_root=data_root)] if other is not None else []), []
    except UserError as reason:
        return [], [f"The pictures are not there any more ({reason}), so vectors alone were compared."]


def look(
    own: Embedding, other: Embedding | None, pictures: Sequence[Pictures], folder: Path, *, notes: Sequence[str] = ()
) -> Cleaned:
    """Find all there is to find.

    Args:
        own: the images to clean.
        other: images that they are compared with.
        pictures: of one, or of both; empty where they are gone.
        folder: has room for small pictures while they are compared.
        notes: what to say to the user, besides.
    """
    images = Catalogue(own, other)
    graph = neighbour_graph(own)
    whole = _with_other(graph, own, other)
    squares = read_squares(pictures, folder if folder.is_dir() else own.folder) if pictures else None
    there = squares.there if squares is not None else np.zeros(len(images), bool)
    said = [*notes, *_missing(there)] if pictures else [*notes]
    certain, similar = _links(images, whole, squares)
    found = _groups(images, certain, EXACT) + _groups(images, similar, SIMILAR)
    found.sort(key=lambda group: (not group.leak, group.kind == "similar", -group.score, group.rows[0]))
    scores = graph.outlier_scores()
    checked = label_errors(own, graph, _numbers(certain, len(images))[: len(own)])
    if isinstance(checked, str):
        said.append(f"Labels were not checked: {checked}.")
        checked = LabelErrors.none(len(own))
    return Cleaned(images, tuple(found), outliers(scores), scores, checked, said)


def _with_other(graph: Graph, own: Embedding, other: Embedding | None) -> Graph:
    """The graph of the images of both, in which those of the other have no neighbours."""
    if other is None:
        return graph
    similarity, rows = Bank(other).nearest(np.asarray(own.vectors, np.float32), ACROSS)
    both = np.full((len(own) + len(other), graph.rows.shape[1] + rows.shape[1]), -1)
    likeness = np.full(both.shape, -1, np.float32)
    both[: len(own)] = np.concatenate([graph.rows, rows.numpy() + len(own)], 1)
    likeness[: len(own)] = np.concatenate([graph.similarity, similarity.numpy()], 1)
    return Graph(likeness, both)


def _missing(there: NDArray[np.bool_]) -> list[str]:
    if there.all():
        return []
    lost = several(int((~there).sum()), "picture")
    what = "what seems to be the same as one of them is called similar, by vectors alone, and stays in the keep list"
    return [f"{lost} cannot be read any more (moved? --images says where they are now): {what}."]


def _links(images: Catalogue, graph: Graph, squares: Squares | None) -> tuple[Links, Links]:
    """What is certainly the same, and what seems to be by vectors alone."""
    hashes = images.sha256()
    first = first_equal(hashes)
    there = np.zeros(len(images), bool) if squares is None else squares.there.copy()
    certain = [exact_links(hashes)]
    if squares is not None and there.any():
        certain.append(near_links(squares, graph.rows, first))
    return join_links(certain), similar_links(graph, there, first)


def _groups(images: Catalogue, links: Links, kind: int) -> list[Group]:
    """Groups with at least one image that is to be cleaned, and more than images of the other embedding."""
    place = np.full(len(images), -1)
    found = groups(links, len(images))
    for number, rows in enumerate(found):
        place[rows] = number
    order = np.argsort(place[links.i], kind="stable")
    cuts = np.searchsorted(place[links.i][order], np.arange(len(found) + 1))
    made = []
    for number, rows in enumerate(found):
        part = take(links, order[cuts[number] : cuts[number + 1]])
        name = "similar" if kind == SIMILAR else "exact" if not (part.kind == NEAR).any() else "near"
        if rows[0] < len(images.own):
            made.append(make_group(images, name, rows, part))
    return made


def _numbers(links: Links, count: int) -> NDArray[np.int64]:
    """(N,) a number that the images of a group share."""
    numbers = np.arange(count)
    for rows in groups(links, count):
        numbers[rows] = rows[0]
    return numbers


def outliers(scores: NDArray[np.float32]) -> NDArray[np.int64]:
    """Rows whose neighbours lie far away for this set, the farthest first.

    The logarithm of the distance is nearly normal; its spread is measured above the median, by the median there.
    """
    if len(scores) < FEWEST:
        return np.zeros(0, np.int64)
    values = np.log(np.maximum(scores, 1e-6))
    above = values - np.median(values)
    spread = 1.4826 * np.median(above[above > 0]) if (above > 0).any() else 0
    rows = np.flatnonzero(above > OUTLYING * max(float(spread), 0.05))
    return rows[np.argsort(-scores[rows], kind="stable")]
