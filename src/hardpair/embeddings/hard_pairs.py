"""The hard pairs of every image: those that the rule of the paper mines from the vectors of an embedding.

Training mines among the outputs of its heads; here the same rule looks at the encoder's own vectors. They have another
scale, so that the threshold is taken from their distances: half of all images have at least `USUAL` hard pairs.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from hardpair.embeddings.embedding import Embedding
from hardpair.embeddings.graph import Graph

KEPT = 8  # of each image
USUAL = 4
CHUNK = 512  # images at a time: at 32 candidates of 512 numbers, 32 MB


@dataclass(frozen=True)
class HardPairs:
    """Other images that lie near, the nearest first."""

    rows: NDArray[np.int64]  # (N, k)
    distance: NDArray[np.float32]  # (N, k) Eq. 3
    threshold: float  # Eq. 5: pairs at most so far apart are mined

    @property
    def mined(self) -> NDArray[np.bool_]:
        """Which of them are hard negatives, (N, k)."""
        mined: NDArray[np.bool_] = self.distance <= self.threshold
        return mined


def hard_pairs(embedding: Embedding, graph: Graph) -> HardPairs:
    """The nearest by Eq. 3, squared distance of vectors divided by their largest entry, among the neighbours."""
    count, candidates = graph.rows.shape
    k = min(KEPT, candidates)
    rows, distance = np.empty((count, k), np.int64), np.empty((count, k), np.float32)
    for start in range(0, count, CHUNK):
        part = slice(start, start + CHUNK)
        near = graph.rows[part]
        anchors, others = _scaled(embedding.vectors[part]), _scaled(embedding.vectors[near.ravel()])
        apart = (others.view(*near.shape, anchors.shape[1]) - anchors[:, None]).square_().sum(-1)  # (n, 32)
        order = apart.argsort(dim=1, stable=True)[:, :k]
        rows[part] = np.take_along_axis(near, order.numpy(), axis=1)
        distance[part] = apart.gather(1, order).numpy()
    threshold = float(np.median(distance[:, min(USUAL, k) - 1])) if k else 0.0
    return HardPairs(rows, distance, threshold)


def _scaled(vectors: NDArray[np.float32 | np.float16]) -> torch.Tensor:
    """Eq. 2: each row divided by its norm, the largest of its entries."""
    rows = torch.from_numpy(np.array(vectors, dtype=np.float32))
    return rows / rows.abs().amax(dim=1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)
