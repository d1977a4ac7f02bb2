"""`hardpair search`: the nearest images of an embedding, exact by default, by an index where there are millions."""

import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from hardpair.data.progress import progress
from hardpair.embeddings.csv_files import refuse_other
from hardpair.embeddings.embedder import embedder_of
from hardpair.embeddings.embedding import Embedding, open_embedding
from hardpair.embeddings.found import COLUMNS, Found
from hardpair.embeddings.index import approximate_bank, require_usearch
from hardpair.embeddings.neighbours import QUERIES, Bank
from hardpair.embeddings.pictures import moved_to
from hardpair.embeddings.queries import Asked, Resolver
from hardpair.embeddings.sheet import refuse_other_page
from hardpair.errors import UserError, require_range
from hardpair.machine import prepare_to_compute
from hardpair.train.parallel import pick_device

MOST_K = 10_000
FilePath = str | os.PathLike[str]
Nearest = Callable[[NDArray[np.float32], int], tuple[torch.Tensor, torch.Tensor]]


def search(
    embedding: Embedding | FilePath,
    queries: FilePath | Sequence[FilePath],
    *,
    k: int = 10,
    index: bool = False,
    csv: FilePath | None = None,
    page: FilePath | None = None,
    encoder: FilePath | None = None,
    images: FilePath | None = None,
    data_root: FilePath = "data",
    device: str = "auto",
    threads: int = 0,
) -> Found:
    """The nearest images of each query by cosine similarity; an image is not found as its own neighbour.

    Args:
        embedding: what to search, or its folder.
        queries: picture files, names of images in the embedding (or unambiguous ends of them), folders of pictures, or
            folders of other embeddings by the same encoder, of which the most similar pairs come first.
        k: how many to find for each.
        index: use an approximate index, for millions of images; it is built once and kept with the embedding.
        csv: also write all that was found to this file.
        page: also write a contact sheet to this file.
        encoder: where the encoder of the embedding is now, if it was moved; needed for pictures from elsewhere.
        images: where the pictures of the embedding are now, if they were moved.
        data_root: where downloaded sets are kept.
        device: for the encoder: auto, cpu, cuda, cuda:1 …
        threads: of the CPU; 0 leaves the choice to torch.
    """
    words = [queries] if isinstance(queries, str | os.PathLike) else list(queries)
    if not words:
        raise UserError("queries: give at least one: a picture, the name of an image, or a folder")
    require_range("k", k, 1, MOST_K)
    if csv is not None:
        refuse_other(Path(csv), COLUMNS)
    if page is not None:
        refuse_other_page(Path(page))
    root = moved_to(images)
    if index:
        require_usearch()
    prepare_to_compute(threads)
    if not isinstance(embedding, Embedding):
        embedding = open_embedding(os.fspath(embedding))
    source = "" if encoder is None else os.fspath(encoder)
    opened = functools.cache(lambda: embedder_of(embedding.manifest, device=pick_device(device), source=source))
    names = [os.fspath(word) for word in words]
    resolver = Resolver(embedding, names, opened, images=root, data_root=Path(data_root))
    found = _search(embedding, [resolver.resolve(name) for name in names], k, index=index)
    if csv is not None:
        found.write_csv(Path(csv))
    if page is not None:
        found.write_page(Path(page), images=root, data_root=Path(data_root))
    return found


def _search(embedding: Embedding, asked: Sequence[Asked], k: int, *, index: bool) -> Found:
    bank = approximate_bank(embedding) if index else Bank(embedding)
    k = min(k, len(embedding) - any((part.own >= 0).any() for part in asked))
    names, rows, similarities, places = [], [], [], []
    for number, part in enumerate(asked):
        similarity, found = _nearest(bank.nearest, part, k)
        # Of another embedding, pairs that are most alike come first.
        order = np.argsort(-similarity[:, 0], kind="stable") if part.whole and k else np.arange(len(found))
        names += [part.names[place] for place in order]
        places += [(number, int(place)) for place in order]
        rows.append(found[order])
        similarities.append(similarity[order])
    return Found(embedding, (*names,), np.concatenate(rows), np.concatenate(similarities), (*asked,), (*places,))


def _nearest(nearest: Nearest, asked: Asked, k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Similarities and rows (M, k); a query that is an image of the embedding is left out of its own."""
    count, some_own = len(asked.names), bool((asked.own >= 0).any())
    similarity, rows = np.empty((count, k), np.float32), np.empty((count, k), np.int64)
    with progress("searching", count) as advance:
        for start in range(0, count, QUERIES):
            part = slice(start, start + QUERIES)
            values, found = (t.numpy() for t in nearest(np.asarray(asked.vectors[part], np.float32), k + some_own))
            similarity[part], rows[part] = without_own(values, found, asked.own[part], k)
            advance(QUERIES)
    return similarity, rows


def without_own(
    similarity: NDArray[np.float32], rows: NDArray[np.int64], own: NDArray[np.int64], k: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The first k of each row that are not the query itself; where there may be one, k + 1 were sought."""
    order = np.argsort(rows == own[:, None], axis=1, kind="stable")[:, :k]  # the query goes last
    return np.take_along_axis(similarity, order, 1), np.take_along_axis(rows, order, 1)
