"""Every image of an embedding as a point of the plane, and the clusters of these points.

`map.npz` keeps both with the embedding; the manifest's hash of the vectors says whether they belong to them. Systems
differ in the last bits of a layout and layouts amplify them, so a map is made once and read afterwards.
"""

import re
import warnings
import zipfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpair.data.progress import progress
from hardpair.embeddings.embedding import AT_ONCE, Embedding
from hardpair.embeddings.graph import Graph
from hardpair.files import replacing

FILE = "map.npz"
NEIGHBOURS = 15  # of each image, itself included, as umap-learn counts
MIN_DISTANCE, SPREAD = 0.1, 1.0  # umap-learn's own
SMALL, EPOCHS_OF_SMALL, EPOCHS = 10_000, 500, 200  # umap-learn's own, too
EACH_EPOCH = {"bar_format": "{n}", "miniters": 1, "mininterval": 0}  # what the bar of umap-learn shows, and when
SEED = 0
LEAST_IMAGES = 10  # fewer have no clusters
SOON = 20_000  # images whose clusters scikit-learn finds in a second or two; fast-hdbscan first compiles for twenty
TYPICAL = 3  # pictures that stand for a cluster

Points = NDArray[np.float32]


@dataclass(frozen=True)
class Projection:
    """A point of the plane and a cluster for each image."""

    points: Points  # (N, 2), finite
    clusters: NDArray[np.int32]  # (N,) the largest is 0; -1 belongs to none

    def typical(self, embedding: Embedding) -> list[list[int]]:
        """For each cluster the rows nearest to its mean direction, the nearest first."""
        return [_typical(embedding, np.flatnonzero(self.clusters == one)) for one in range(self.clusters.max() + 1)]


def projection(embedding: Embedding, graph: Graph) -> Projection:
    """Of all images; read from the folder of the embedding if it is there, else computed and written."""
    known = read_projection(embedding)
    if known is not None:
        return known
    points = lay_out(embedding, graph)
    made = Projection(points, find_clusters(points))
    _write(embedding, made)
    return made


def lay_out(embedding: Embedding, graph: Graph) -> Points:
    """UMAP of the neighbour graph, (N, 2), begun at the two principal components of the unit vectors."""
    begin = principal_components(embedding)
    if len(embedding) <= 3:  # a graph of so few has no shape
        return begin
    with warnings.catch_warnings():
        # One that numba gives: functions with parallel=True in which it found nothing to do side by side.
        warnings.filterwarnings("ignore", category=Warning, module="numba")
        # umap-learn says on import that tensorflow is missing, which only its ParametricUMAP needs.
        warnings.filterwarnings("ignore", category=ImportWarning, module="umap")
        return _umap(begin, graph)


def _umap(begin: Points, graph: Graph) -> Points:
    from umap.umap_ import find_ab_params, fuzzy_simplicial_set, simplicial_set_embedding

    count = len(begin)
    own = np.arange(count)[:, None]
    rows = np.hstack([own, graph.rows[:, : NEIGHBOURS - 1]])  # umap-learn wants each image as its own nearest
    distances = np.hstack([np.zeros((count, 1)), 1 - graph.similarity[:, : NEIGHBOURS - 1]]).clip(min=0)
    random = np.random.RandomState(SEED)
    edges, _, _ = fuzzy_simplicial_set(
        begin, rows.shape[1], random, "cosine", knn_indices=rows.astype(np.int32), knn_dists=distances.astype("f4")
    )
    a, b = find_ab_params(SPREAD, MIN_DISTANCE)
    epochs = EPOCHS_OF_SMALL if count <= SMALL else EPOCHS
    with ExitStack() as stack:
        points, _ = simplicial_set_embedding(
            begin,
            edges,
            n_components=2,
            initial_alpha=1.0,
            a=a,
            b=b,
            gamma=1.0,
            negative_sample_rate=5,
            n_epochs=epochs,
            init=begin,
            random_state=random,
            metric="cosine",
            metric_kwds={},
            densmap=False,
            densmap_kwds={},
            output_dens=False,
            parallel=False,  # in parallel, points race for each other's places: no two runs would agree
            tqdm_kwds={"disable": False, "file": _Bar(epochs, stack), **EACH_EPOCH},
        )
    return np.ascontiguousarray(points, dtype=np.float32)


class _Bar:
    """The file that umap-learn's bar is written to, as a number of epochs each time: it becomes our own progress."""

    def __init__(self, epochs: int, stack: ExitStack) -> None:
        self.epochs, self.stack, self.done = epochs, stack, 0
        self.advance: Callable[[int], None] | None = None

    def write(self, text: str) -> None:
        """Progress begins after the first epoch, which is compiled before it runs."""
        done = int(found[0]) if (found := re.search(r"\d+", text)) else self.done
        if self.advance is not None:
            self.advance(done - self.done)
        elif done:
            self.advance = self.stack.enter_context(progress("layout", self.epochs - done))
        self.done = done

    def flush(self) -> None:
        """Nothing is kept back."""


def principal_components(embedding: Embedding) -> Points:
    """The first two of the unit vectors, (N, 2) within [-10, 10], with a little noise that tells copies apart."""
    count, width = embedding.vectors.shape
    parts = [slice(start, start + AT_ONCE) for start in range(0, count, AT_ONCE)]
    mean = sum(embedding.unit_vectors(part).sum(axis=0, dtype=np.float64) for part in parts) / count
    spread = np.zeros((width, width))
    for part in parts:
        centred = embedding.unit_vectors(part) - mean.astype(np.float32)
        spread += centred.T @ centred
    _, directions = np.linalg.eigh(spread)  # the largest last
    axes = directions[:, ::-1][:, :2]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), range(axes.shape[1])])  # else the sign is the machine's
    flat = np.concatenate([(embedding.unit_vectors(part) - mean) @ axes for part in parts])
    points = np.zeros((count, 2))
    points[:, : flat.shape[1]] = flat * (10 / max(np.abs(flat).max(), 1e-12))
    return (points + np.random.default_rng(SEED).normal(scale=1e-4, size=points.shape)).astype(np.float32)


def find_clusters(points: Points) -> NDArray[np.int32]:
    """HDBSCAN of the points, (N,): dense groups of at least √N images, the largest is 0; -1 belongs to none."""
    count = len(points)
    if count < LEAST_IMAGES:
        return np.full(count, -1, dtype=np.int32)
    # Leaves of the tree and not its stable trunks: one large group says nothing about the pictures in it.
    options: dict[str, Any] = {"min_cluster_size": max(5, round(count**0.5)), "cluster_selection_method": "leaf"}
    if count <= SOON:
        from sklearn.cluster import HDBSCAN

        finder = HDBSCAN(**options, min_samples=2, copy=True)  # it counts a point among its own neighbours
    else:
        from fast_hdbscan import HDBSCAN

        finder = HDBSCAN(**options, min_samples=1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=Warning, module="numba")  # as above
        return by_size(finder.fit_predict(points.astype(np.float64)))


def by_size(labels: NDArray[Any]) -> NDArray[np.int32]:
    """Numbers such that the largest group is 0; what is negative becomes -1."""
    numbers, sizes = np.unique(labels[labels >= 0], return_counts=True)
    place = np.full(int(labels.max(initial=-1)) + 2, -1, dtype=np.int32)  # the last is that of -1
    place[numbers[np.argsort(-sizes, kind="stable")]] = np.arange(len(numbers))
    found: NDArray[np.int32] = place[np.maximum(labels, -1)]
    return found


def _typical(embedding: Embedding, rows: NDArray[np.intp]) -> list[int]:
    parts: Sequence[NDArray[np.intp]] = [rows[start : start + AT_ONCE] for start in range(0, len(rows), AT_ONCE)]
    mean = sum(embedding.unit_vectors(part).sum(axis=0, dtype=np.float64) for part in parts)
    nearness = np.concatenate([embedding.unit_vectors(part) @ mean for part in parts])
    return [int(row) for row in rows[np.argsort(-nearness, kind="stable")[:TYPICAL]]]


def read_projection(embedding: Embedding) -> Projection | None:
    """None where there is none, or one of other vectors, or a damaged one: it is computed again."""
    try:
        # Opened here: of a damaged file numpy would leave its own open.
        with (embedding.folder / FILE).open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            if str(file["vectors"]) != embedding.manifest["vectors_sha256"]:
                return None
            points = np.stack([file["x"], file["y"]], axis=1).astype(np.float32)
            clusters = file["cluster"].astype(np.int32)
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile, EOFError):
        return None
    count = len(embedding)
    whole = points.shape == (count, 2) and clusters.shape == (count,) and bool(np.isfinite(points).all())
    # Anybody may have written the file: numbers of clusters are places in lists.
    return Projection(points, clusters) if whole and -1 <= clusters.min() <= clusters.max() < count else None


def _write(embedding: Embedding, made: Projection) -> None:
    with replacing(embedding.folder / FILE) as temporary, temporary.open("wb") as file:
        np.savez(
            file,
            x=made.points[:, 0],
            y=made.points[:, 1],
            cluster=made.clusters,
            vectors=np.array(embedding.manifest["vectors_sha256"]),
        )
