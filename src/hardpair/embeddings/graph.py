"""The nearest neighbours of every image of an embedding, computed once and kept in its folder.

A map, a search for duplicates and a choice of what to label all begin with them. `neighbours.npz` holds similarities
and rows; the manifest's hash of the vectors says whether they belong to them.
"""

import zipfile
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardpair.data.progress import progress
from hardpair.embeddings.embedding import Embedding
from hardpair.embeddings.neighbours import QUERIES, Bank
from hardpair.files import replacing

FILE = "neighbours.npz"
NEIGHBOURS = 32  # of each image; maps take 15, outliers 10


@dataclass(frozen=True)
class Graph:
    """The nearest of each image by cosine similarity, the nearest first; an image is not its own neighbour."""

    similarity: NDArray[np.float32]  # (N, k)
    rows: NDArray[np.int64]  # (N, k)

    def outlier_scores(self, k: int = 10) -> NDArray[np.float32]:
        """How far from its nearest neighbours each image is: 1 − their mean similarity, (N,) in [0, 2]."""
        if not self.similarity.shape[1]:
            return np.zeros(len(self.similarity), dtype=np.float32)
        scores: NDArray[np.float32] = 1 - self.similarity[:, :k].mean(axis=1)
        return scores


def neighbour_graph(embedding: Embedding) -> Graph:
    """Of all images; read from the folder of the embedding if it is there, else computed and written."""
    known = _read(embedding)
    if known is not None:
        return known
    bank, count = Bank(embedding), len(embedding)
    k = min(NEIGHBOURS, count - 1)
    similarity, rows = np.empty((count, k), np.float32), np.empty((count, k), np.int64)
    with progress("nearest neighbours", count) as advance:
        for start in range(0, count, QUERIES):
            part = slice(start, min(start + QUERIES, count))
            found = bank.nearest(np.asarray(embedding.vectors[part], np.float32), k, own=start)
            similarity[part], rows[part] = (tensor.numpy() for tensor in found)
            advance(part.stop - part.start)
    graph = Graph(similarity, rows)
    _write(embedding, graph)
    return graph


def _read(embedding: Embedding) -> Graph | None:
    """None where there is none, or one of other vectors, or a damaged one: it is computed again."""
    try:
        with np.load(embedding.folder / FILE, allow_pickle=False) as file:
            if str(file["vectors"]) != embedding.manifest["vectors_sha256"]:
                return None
            graph = Graph(np.asarray(file["similarity"], np.float32), file["rows"].astype(np.int64))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError):
        return None
    shape = (len(embedding), min(NEIGHBOURS, len(embedding) - 1))
    inside = graph.rows.shape == shape and (not graph.rows.size or 0 <= graph.rows.min() <= graph.rows.max() < shape[0])
    return graph if inside and graph.similarity.shape == shape and np.isfinite(graph.similarity).all() else None


def _write(embedding: Embedding, graph: Graph) -> None:
    with replacing(embedding.folder / FILE) as temporary, temporary.open("wb") as file:
        np.savez(
            file,
            similarity=graph.similarity,
            rows=graph.rows.astype(np.int32),
            vectors=np.array(embedding.manifest["vectors_sha256"]),
        )
