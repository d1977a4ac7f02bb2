"""k-means on vectors of length one, started by k-means++: as many clusters as are wanted, in seconds.

Centres are fitted on a sample, so that a million images take little longer than fifty thousand; then every image joins
the nearest one.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardpair.data.progress import progress
from hardpair.embeddings.embedding import Embedding

SAMPLE, PER_CLUSTER = 20_000, 50  # images that centres are fitted on: so many, or so many per cluster
STEPS = 30
TILE = 8192  # images that join their clusters at a time


def cluster(embedding: Embedding, rows: NDArray[np.int64], count: int, *, seed: int) -> NDArray[np.int64]:
    """The cluster of each of these images, (n,) from 0; fewer clusters where fewer images differ."""
    random = np.random.default_rng(seed)
    size = max(SAMPLE, PER_CLUSTER * count)
    sample = rows if len(rows) <= size else rows[np.sort(random.choice(len(rows), size, replace=False))]
    points = torch.from_numpy(embedding.unit_vectors(sample))
    centres = fit_centres(points, count, random)
    found = np.empty(len(rows), np.int64)
    for start in range(0, len(rows), TILE):
        part = slice(start, start + TILE)
        found[part] = nearest_centre(torch.from_numpy(embedding.unit_vectors(rows[part])), centres).numpy()
    return np.unique(found, return_inverse=True)[1].reshape(-1)  # without empty ones


def fit_centres(points: Tensor, count: int, random: np.random.Generator) -> Tensor:
    """Centres (k, D) of points (n, D) by Lloyd's steps until no point changes its cluster; k is at most count."""
    centres = spread_centres(points, count, random)
    before = None
    with progress("clusters", STEPS) as advance:
        for _ in range(STEPS):
            nearest = nearest_centre(points, centres)
            if before is not None and torch.equal(nearest, before):
                break
            before = nearest
            sums = torch.zeros_like(centres).index_add_(0, nearest, points)
            members = nearest.bincount(minlength=len(centres))[:, None]
            centres = torch.where(members > 0, sums / members.clamp(min=1), centres)
            advance(1)
    return centres


def nearest_centre(points: Tensor, centres: Tensor) -> Tensor:
    """The nearest (n,) by Euclidean distance."""
    return torch.addmm(-centres.square().sum(1) / 2, points, centres.T).argmax(1)


def spread_centres(points: Tensor, count: int, random: np.random.Generator) -> Tensor:
    """Greedy k-means++: a centre is drawn by its squared distance to the nearest so far, the best of several."""
    tries = 2 + int(np.log(count))
    squares = points.square().sum(1)
    chosen = [int(random.integers(len(points)))]
    distance = _distances(points, squares, chosen)[0]  # (n,) squared, to the nearest centre
    while len(chosen) < count:
        reached = distance.double().cumsum(0)
        if reached[-1] <= 1e-6:  # every point is a centre, up to rounding
            break
        drawn = torch.searchsorted(reached, torch.from_numpy(random.random(tries)) * reached[-1])
        drawn = drawn.clamp(max=len(points) - 1)
        left = torch.minimum(distance, _distances(points, squares, drawn.tolist()))  # (tries, n)
        best = int(left.sum(1).argmin())
        chosen.append(int(drawn[best]))
        distance = left[best]
    return points[chosen]


def _distances(points: Tensor, squares: Tensor, some: list[int]) -> Tensor:
    """Squared distances (k, n) from some of the points to all."""
    products = points[some] @ points.T
    return (squares[some][:, None] + squares - 2 * products).clamp_(min=0)
