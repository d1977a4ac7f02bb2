"""Nearest neighbours by cosine similarity, exact, in tiles that fit into any memory."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardpair.embeddings.embedding import Embedding

TILE = 16_384  # vectors of the bank at a time
HALF_TILE = 1024  # of float16 for one query: as float32 they stay in the processor's cache
QUERIES = 1024  # at a time: a tile of similarities takes 64 MB


class Bank:
    """The vectors of an embedding, ready to be searched; lengths are computed once."""

    def __init__(self, embedding: Embedding) -> None:
        self.vectors = torch.from_numpy(embedding.vectors)  # (N, D) mapped
        parts = [tile.float().norm(dim=1) for tile in self.vectors.split(TILE)]
        self.inverse = 1 / torch.cat(parts).clamp(min=torch.finfo(torch.float32).tiny)  # (N,)

    def __len__(self) -> int:
        return len(self.vectors)

    def nearest(self, queries: NDArray[np.float32], k: int, *, own: int | None = None) -> tuple[Tensor, Tensor]:
        """Similarities and rows (M, k) of the nearest of each query, the nearest first.

        Args:
            queries: (M, D) of any length.
            k: how many; fewer where the bank has fewer.
            own: where the queries are rows of the bank, that of the first; an image is not its own neighbour.
        """
        k = min(k, len(self) - (own is not None))
        if len(queries) == 1:
            return self._nearest_of_one(torch.from_numpy(queries[0]), k, own)
        found = [
            self._nearest(torch.from_numpy(queries[start : start + QUERIES]), k, None if own is None else own + start)
            for start in range(0, len(queries), QUERIES)
        ]
        return torch.cat([similarity for similarity, _ in found]), torch.cat([rows for _, rows in found])

    def _nearest(self, queries: Tensor, k: int, own: int | None) -> tuple[Tensor, Tensor]:
        unit = torch.nn.functional.normalize(queries.float(), dim=1)
        best, rows = unit.new_empty(len(unit), 0), torch.empty(len(unit), 0, dtype=torch.int64)
        for start in range(0, len(self), TILE):
            tile = self.vectors[start : start + TILE]
            similarity = (unit @ tile.float().T).mul_(self.inverse[start : start + TILE])
            if own is not None:
                _hide_own(similarity, own - start)
            top = similarity.topk(min(k, similarity.shape[1]), dim=1)
            best, rows = torch.cat([best, top.values], 1), torch.cat([rows, top.indices + start], 1)
            if best.shape[1] > k:
                best, kept = best.topk(k, dim=1)
                rows = rows.gather(1, kept)
        return best, rows

    def _nearest_of_one(self, query: Tensor, k: int, own: int | None) -> tuple[Tensor, Tensor]:
        """One product of matrix and vector, by numpy: it took half of torch's time on a CPU."""
        unit = torch.nn.functional.normalize(query.float(), dim=0).numpy()
        vectors = self.vectors.numpy()
        if vectors.dtype == np.float32:
            product = torch.from_numpy(vectors @ unit)
        else:
            product = torch.cat(
                [torch.from_numpy(tile.float().numpy() @ unit) for tile in self.vectors.split(HALF_TILE)]
            )
        similarity = product.mul_(self.inverse)
        if own is not None:
            similarity[own] = -torch.inf
        top = similarity.topk(k)
        return top.values[None], top.indices[None]


def _hide_own(similarity: Tensor, first: int) -> None:
    """Query q is column first + q, if that lies in this tile."""
    columns = torch.arange(len(similarity)) + first
    inside = (columns >= 0) & (columns < similarity.shape[1])
    similarity[inside.nonzero()[:, 0], columns[inside]] = -torch.inf
