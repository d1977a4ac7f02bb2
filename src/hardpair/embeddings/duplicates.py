"""Pictures that are there more than once: equal files, and the same picture re-encoded, resized, cut or mirrored.

Near duplicates are verified by pixels. Where a picture is no longer there, vectors alone must do: two images that lie
far closer to each other than to their other neighbours are *similar*, which a person should look at.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from hardpair.data.progress import progress
from hardpair.embeddings.graph import Graph
from hardpair.embeddings.pictures import Pictures
from hardpair.embeddings.registration import register
from hardpair.embeddings.windows import FLAT, SIDE, alignment, likely_pairs

KINDS = ("exact", "near", "similar")
EXACT, NEAR, SIMILAR = range(3)
DETAIL, GREY, COLOUR, OVERLAP = 0.85, 0.92, 0.9, 0.5
"""The least of each that makes a near duplicate; chosen on planted copies of Flowers-102 (docs/log.md, 2026-11-19)."""
RATIO = 0.25  # of the distance to the tenth neighbour; what is closer is similar
TENTH, ROUNDING = 10, 1e-6  # the neighbour that tells what is usual; distance of equal vectors
AT_ONCE = 1024  # pictures, and likely pairs times 16

Rows = NDArray[np.int64]


class Links(NamedTuple):
    """Pairs of rows that are the same picture."""

    i: Rows  # (M,)
    j: Rows  # (M,)
    score: NDArray[np.float32]  # (M,) 1 where the files are equal, else the correlation of details or of vectors
    kind: NDArray[np.int8]  # (M,) of KINDS


class Squares(NamedTuple):
    """Small pictures of all rows."""

    pixels: NDArray[np.uint8]  # (N, 3, 32, 32), mapped; black where there is none
    there: NDArray[np.bool_]  # (N,)


def no_links() -> Links:
    """None."""
    return Links(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32), np.zeros(0, np.int8))


def join_links(parts: Sequence[Links]) -> Links:
    """All of them, one after the other."""
    i, j, score, kind = (np.concatenate(columns) for columns in zip(no_links(), *parts, strict=True))
    return Links(i, j, score, kind)


def take(links: Links, which: Rows) -> Links:
    """Some of them."""
    return Links(links.i[which], links.j[which], links.score[which], links.kind[which])


def read_squares(sources: Sequence[Pictures], folder: Path) -> Squares:
    """Of all pictures of one or several embeddings; held by a file in ``folder`` that has no name."""
    counts = [len(source.embedding) for source in sources]
    shape = (sum(counts), 3, SIDE, SIDE)
    with TemporaryFile(dir=folder) as file:
        pixels = np.memmap(file, np.uint8, "w+", shape=shape)
    there = np.zeros(shape[0], bool)
    with progress("reading pictures", shape[0]) as advance:
        first = 0
        for source, count in zip(sources, counts, strict=True):
            for start in range(0, count, AT_ONCE):
                rows = range(start, min(start + AT_ONCE, count))
                for row, square in zip(rows, source.squares(rows, SIDE), strict=True):
                    if square is not None:
                        pixels[first + row], there[first + row] = square, True
                advance(len(rows))
            first += count
    return Squares(pixels, there)


def exact_links(sha256: Sequence[str]) -> Links:
    """Each file that is equal to an earlier one, with the first of them."""
    first = first_equal(sha256)
    j = np.flatnonzero(first != np.arange(len(first)))
    return Links(first[j], j, np.ones(len(j), np.float32), np.full(len(j), EXACT, np.int8))


def first_equal(sha256: Sequence[str]) -> Rows:
    """(N,) the first row with the same hash."""
    known: dict[str, int] = {}
    return np.array([known.setdefault(name, row) for row, name in enumerate(sha256)], dtype=np.int64)


def near_links(squares: Squares, neighbours: Rows, first: Rows) -> Links:
    """Pairs that pixels show to be the same; of equal files, and of equal squares, only the first is looked at.

    Args:
        squares: of all rows; those that are not looked at become black.
        neighbours: (N, k) rows worth comparing with each; -1 where there is none.
        first: (N,) the first row with the same file.
    """
    equal = equal_squares(squares, first)
    first = equal[first]
    pixels = squares.pixels
    copies = np.flatnonzero(first != np.arange(len(first)))
    pixels[copies] = 0
    asked = np.where(neighbours >= 0, first[neighbours], -1)
    asked[copies] = -1
    j = np.flatnonzero(equal != np.arange(len(equal)))
    parts = [Links(equal[j], j, np.ones(len(j), np.float32), np.full(len(j), NEAR, np.int8))]
    for pairs in likely_pairs(pixels, asked):
        match = register(pixels[pairs.i], pixels[pairs.j], alignment(pairs.window, pairs.mirrored))
        good = (match.detail >= DETAIL) & (match.grey >= GREY) & (match.colour >= COLOUR) & (match.overlap >= OVERLAP)
        i, j = np.minimum(pairs.i, pairs.j)[good], np.maximum(pairs.i, pairs.j)[good]
        parts.append(Links(i, j, match.detail[good], np.full(len(i), NEAR, np.int8)))
    return best_of_each(join_links(parts))


def equal_squares(squares: Squares, first: Rows) -> Rows:
    """(N,) the first row with the same small picture, among those that are the first with their file and not flat."""
    known: dict[bytes, int] = {}
    equal = np.arange(len(first))
    for row in np.flatnonzero(squares.there & (first == equal)).tolist():
        square = squares.pixels[row]
        if np.ptp(square) > FLAT:
            equal[row] = known.setdefault(hashlib.sha256(square.tobytes()).digest(), row)
    return equal


def similar_links(graph: Graph, there: NDArray[np.bool_], first: Rows) -> Links:
    """By vectors alone, for pairs of which a picture is missing."""
    if graph.rows.shape[1] == 0:
        return no_links()
    distance = 1 - graph.similarity
    usual = distance[:, min(TENTH, distance.shape[1]) - 1]
    scale = RATIO * np.minimum(usual[:, None], usual[graph.rows])
    i, place = np.nonzero(distance <= np.maximum(scale, ROUNDING))
    j = graph.rows[i, place]
    i, j, score = first[i], first[j], graph.similarity[i, place]
    kept = (i != j) & ~(there[i] & there[j])
    i, j = np.minimum(i, j)[kept], np.maximum(i, j)[kept]
    return best_of_each(Links(i, j, score[kept], np.full(len(i), SIMILAR, np.int8)))


def best_of_each(links: Links) -> Links:
    """Each pair once, with its best score."""
    order = np.lexsort((-links.score, links.j, links.i))
    i, j = links.i[order], links.j[order]
    new = np.r_[True, (i[1:] != i[:-1]) | (j[1:] != j[:-1])][: len(order)]
    return take(links, order[new])


def groups(links: Links, count: int) -> list[Rows]:
    """Rows that hang together, of two or more, the group of the first row first."""
    edges = coo_array((np.ones(len(links.i), np.int8), (links.i, links.j)), shape=(count, count))
    _, part = connected_components(edges, directed=False)
    size = np.bincount(part)
    rows = np.flatnonzero(size[part] > 1)
    if not len(rows):
        return []
    rows = rows[np.argsort(part[rows], kind="stable")]
    cuts = np.flatnonzero(np.diff(part[rows])) + 1
    return sorted(np.split(rows, cuts), key=lambda group: int(group[0]))
