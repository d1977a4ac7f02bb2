"""Which images to label next: three ways to choose, which all leave out copies of what is labelled or chosen.

- typical (TypiClust, arXiv:2202.02794): as many clusters as there are labels, old and new; of each of the largest
  clusters without a label the densest image.
- coverage (ProbCover, arXiv:2205.11320): each next image is the one that most images are near to which nothing chosen
  or labelled is near to yet.
- uncertain: typical ones among those where a linear head fitted on the labels hesitates between two classes.
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardpair.data.progress import progress
from hardpair.embeddings.clusters import cluster
from hardpair.embeddings.embedding import Embedding
from hardpair.embeddings.fit_head import fit_head
from hardpair.embeddings.labels import Labelled
from hardpair.text import several

Rows = NDArray[np.int64]
NEIGHBOURS = 20  # whose mean similarity is how typical an image is, as in the paper
MOST_CLUSTERS = 1000  # for more labels than that, several images of a cluster
LARGEST = 8192  # images of a cluster that are compared with each other; of a larger one, so many at random
SEEN = 10_000  # images that coverage counts; of more, so many at random
SHARE = 0.5  # over count, of the images that an average one is near to; .25, 1 and 2 chose worse (docs/log.md)
PAIRED = 500  # images whose similarities to all say how near is near
TILE = 1024
WIDE = 50  # times count: so many of the most uncertain are gathered into clusters; the most uncertain are much alike
ALIKE = 6  # images shown beside each that is chosen


@dataclass(frozen=True)
class Choice:
    """An image to label, and why."""

    row: int
    reason: str  # for people
    images: int  # that it stands for
    score: float  # how typical, what share it covers, or the margin between two classes
    alike: tuple[int, ...]  # rows of some that it stands for, the nearest first


@dataclass(frozen=True)
class Task:
    """What there is to choose from."""

    embedding: Embedding
    rows: Rows  # that may be chosen or are labelled, ascending
    labelled: Rows  # of these
    count: int  # how many are wanted
    seed: int

    def fresh(self) -> "Fresh":
        """What may be chosen, until it is."""
        return Fresh(self.embedding, self.labelled)


class Fresh:
    """Remembers what is labelled and chosen, by content: a copy of a labelled picture teaches nothing new."""

    def __init__(self, embedding: Embedding, labelled: Rows) -> None:
        self.embedding = embedding
        self.taken = set(labelled.tolist())
        self.contents = {embedding.sha256[row] for row in self.taken}

    def take(self, row: int) -> bool:
        """Whether this one is new; from now on it is not."""
        new = row not in self.taken and self.embedding.sha256[row] not in self.contents
        self.taken.add(row)
        self.contents.add(self.embedding.sha256[row])
        return new


def typical(task: Task) -> list[Choice]:
    """The largest clusters first."""
    wanted = min(task.count + len(task.labelled), MOST_CLUSTERS)
    numbers = cluster(task.embedding, task.rows, wanted, seed=task.seed)
    members = np.split(task.rows[np.argsort(numbers, kind="stable")], np.cumsum(np.bincount(numbers))[:-1])
    order = [(int(np.isin(rows, task.labelled).sum()), -len(rows), place) for place, rows in enumerate(members)]
    heapq.heapify(order)
    fresh, waiting = task.fresh(), {}
    choices: list[Choice] = []
    with progress("typical images", task.count) as advance:
        while order and len(choices) < task.count:
            known, size, place = heapq.heappop(order)
            if place not in waiting:
                waiting[place] = _typical_of(task, members[place])
            found = next((choice for choice in waiting[place] if fresh.take(choice.row)), None)
            if found is not None:  # else all of this cluster is taken
                choices.append(found)
                heapq.heappush(order, (known + 1, size, place))
                advance(1)
    return choices


def _typical_of(task: Task, members: Rows) -> Iterator[Choice]:
    """Images of a cluster, the most typical first; those next to one that was named, or labelled, after all others."""
    rows = members
    if len(members) > LARGEST:
        rows = np.sort(np.random.default_rng(task.seed).choice(members, LARGEST, replace=False))
    near, neighbours = nearest_within(torch.from_numpy(task.embedding.unit_vectors(rows)), NEIGHBOURS)
    score = near.mean(1) if near.shape[1] else torch.ones(len(rows))
    reason = f"typical of {several(len(members), 'image')}"
    known = torch.from_numpy(np.isin(rows, task.labelled))
    passed = known.clone()  # what is next to one that was named
    passed[neighbours[known].flatten()] = True
    later: list[int] = []
    for place in score.argsort(descending=True, stable=True).tolist():
        if passed[place] or known[neighbours[place]].any():
            later.append(place)
            continue
        known[place] = True
        passed[neighbours[place]] = True
        yield _choice(rows, neighbours, place, reason, len(members), float(score[place]))
    for place in later:
        yield _choice(rows, neighbours, place, reason, len(members), float(score[place]))


def _choice(rows: Rows, neighbours: Tensor, place: int, reason: str, images: int, score: float) -> Choice:
    alike = rows[neighbours[place, :ALIKE].numpy()]
    return Choice(int(rows[place]), reason, images, score, tuple(alike.tolist()))


def nearest_within(unit: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Similarities and places (n, k) of the nearest of each among themselves, the nearest first."""
    k = min(k, len(unit) - 1)
    found = []
    for start in range(0, len(unit), 1024):
        similarity = unit[start : start + 1024] @ unit.T
        own = torch.arange(len(similarity))
        similarity[own, own + start] = -torch.inf
        found.append(similarity.topk(k, dim=1))
    return torch.cat([top.values for top in found]), torch.cat([top.indices for top in found])


def coverage(task: Task) -> list[Choice]:
    """Those that most images are near to first; once each is near to one, the farthest from all chosen."""
    sample = task.rows
    if len(sample) > SEEN:
        sample = np.sort(np.random.default_rng(task.seed).choice(sample, SEEN, replace=False))
    balls, fresh = Balls(task.embedding, sample, SHARE / task.count), task.fresh()
    for start in range(0, len(task.labelled), TILE):
        balls.cover(task.embedding.unit_vectors(task.labelled[start : start + TILE]))
    choices: list[Choice] = []
    with progress("coverage", task.count) as advance:
        for _ in range(len(sample)):
            if len(choices) == task.count:
                break
            place, near = balls.choose()
            if fresh.take(int(sample[place])):
                share = len(near) / len(sample)
                images = round(share * len(task.rows))
                reason = f"near {several(images, 'image')} that no label is near to"
                choices.append(Choice(int(sample[place]), reason, images, share, tuple(sample[near[:ALIKE]].tolist())))
                advance(1)
    return choices


class Balls:
    """Which images are near to which, and which of them are covered: near to one that is labelled or chosen."""

    def __init__(self, embedding: Embedding, rows: Rows, share: float) -> None:
        """An image in average surroundings is near to such a share of the others."""
        unit = embedding.unit_vectors(rows)
        self.mean = unit.mean(0)  # all vectors have much of it in common, which tells none from another
        self.unit = self._centred(unit)  # (n, D)
        some = self.unit[:: -(-len(rows) // PAIRED)] @ self.unit.T
        self.least = float(some.flatten().quantile(1 - min(share, 1.0)))
        self.near = torch.cat([tile @ self.unit.T >= self.least for tile in self.unit.split(TILE)])  # bool (n, n)
        self.near.fill_diagonal_(True)
        self.gain = self.near.sum(1)  # (n,) images near to it that are not covered
        self.covered = torch.zeros(len(rows), dtype=torch.bool)
        self.similarity = torch.full((len(rows),), -1.0)  # to the most similar of those chosen

    def _centred(self, unit: NDArray[np.float32]) -> Tensor:
        return torch.nn.functional.normalize(torch.from_numpy(unit - self.mean), dim=1)

    def cover(self, unit: NDArray[np.float32]) -> None:
        """What is near to any of these vectors (m, D)."""
        similarity = (self._centred(unit) @ self.unit.T).amax(0)
        self.similarity = torch.maximum(self.similarity, similarity)
        self._cover(similarity >= self.least)

    def _cover(self, near: Tensor) -> None:
        new = (near & ~self.covered).nonzero()[:, 0]
        self.gain -= self.near[:, new].sum(1)
        self.covered[new] = True

    def choose(self) -> tuple[int, NDArray[np.int64]]:
        """The place of the next one, and those it covers besides, the nearest first."""
        place = int(self.gain.argmax() if int(self.gain.max()) > 0 else self.similarity.argmin())
        similarity = self.unit @ self.unit[place]
        new = (self.near[place] & ~self.covered).nonzero()[:, 0]
        new = new[similarity[new].argsort(descending=True, stable=True)]
        self._cover(self.near[place])
        self.similarity = torch.maximum(self.similarity, similarity)
        self.similarity[place] = torch.inf  # never again
        return place, new[new != place].numpy()


def uncertain(task: Task, known: Labelled) -> list[Choice]:
    """Of the images with the smallest margins between the first two classes, the most typical of each cluster."""
    margins, words = _margins(task, known)
    most = min(WIDE * task.count, max(len(task.rows) // 4, task.count))
    places = np.setdiff1d(np.arange(len(task.rows)), np.searchsorted(task.rows, task.labelled))
    places = np.sort(places[np.argsort(margins[places], kind="stable")[:most]])
    among = typical(replace(task, rows=np.union1d(task.rows[places], task.labelled)))
    place = {int(row): place for place, row in enumerate(task.rows)}
    found = [replace(c, reason=words(place[c.row]), score=float(margins[place[c.row]])) for c in among]
    return sorted(found, key=lambda choice: choice.score)


def _margins(task: Task, known: Labelled) -> tuple[NDArray[np.float32], Callable[[int], str]]:
    """Between the probabilities of the first two classes of each of the rows, and words that say so."""
    vectors, rows = task.embedding.vectors, task.rows
    fit = fit_head(vectors[known.rows], known.labels, known.classes, encoder=task.embedding.manifest["encoder"])
    tops = [
        torch.from_numpy(fit.head.probabilities(vectors[rows[start : start + TILE]])).topk(2, dim=1)
        for start in range(0, len(rows), TILE)
    ]
    values, classes = torch.cat([top.values for top in tops]), torch.cat([top.indices for top in tops])

    def words(place: int) -> str:
        pairs = zip(classes[place].tolist(), values[place].tolist(), strict=True)
        return " or ".join(f"{known.classes[number]} ({value:.0%})" for number, value in pairs)

    return (values[:, 0] - values[:, 1]).numpy(), words
