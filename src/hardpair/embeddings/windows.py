"""Which pictures may show the same, whole, mirrored or cut: small windows of one against the core of the other.

Every picture is a square of 32 × 32 grey pixels. Its core is the middle four fifths of it, reduced to 8 × 8 cells. If b
is cut out of a, the core of b is one of the windows of a: at one of a few sizes and places, as it is or mirrored. So
one correlation of 64 numbers compares a pair under one alignment. Pairs come from the encoder (nearest neighbours), and
from fingerprints that need none: the signs of a window's first cosine coefficients, of which mirroring flips the odd.
"""

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardpair.data.progress import progress

SIDE, CELLS = 32, 8  # pixels of a picture and cells of a window, a side
CORE = 0.8  # of the side
PLACES = {
    1.0: (-0.05, 0.0, 0.05),
    0.9: (-0.08, -0.04, 0.0, 0.04, 0.08),
    0.8: (-0.15, -0.1, -0.05, 0.0, 0.05, 0.1, 0.15),
}
"""Of a window, by the size of the part that the other picture shows: how far it lies from the middle, in sides."""
FLAT = 2.0  # grey levels of spread; what varies less has no shape to compare
ALIKE = 0.84  # correlation of cells from which on a pair is worth a closer look
PROBES = 4  # signs nearest to zero that are tried both ways
MOST = 16  # pairs of a picture that are looked at more closely
BUCKET = 32  # of pictures with one fingerprint, so many are looked at: many equal ones still hang together
AT_ONCE = 512  # pictures

Floats = NDArray[np.float32]


class Pairs(NamedTuple):
    """Pictures that may show the same, and how: x in i is ± scale · x in j + 2 · shift, from -1 to 1 over a picture."""

    i: NDArray[np.int64]  # (M,) the picture with the window
    j: NDArray[np.int64]  # (M,) that with the core
    window: NDArray[np.int64]  # (M,) of WINDOWS
    mirrored: NDArray[np.bool_]  # (M,)
    alike: Floats  # (M,) correlation of the cells


def _lines() -> list[tuple[float, float]]:
    """Scale and shift of all windows along one axis."""
    return [(scale, shift) for scale, shifts in PLACES.items() for shift in shifts]


LINES = _lines()
WINDOWS = [(y, x) for y, (sy, _) in enumerate(LINES) for x, (sx, _) in enumerate(LINES) if sx == sy]
MIDDLE = WINDOWS.index((1, 1))  # the core itself


def alignment(window: NDArray[np.int64], mirrored: NDArray[np.bool_]) -> Floats:
    """(M, 4): scale and offset along x, then along y."""
    lines = np.array(LINES, np.float32)
    y, x = np.array(WINDOWS)[window].T
    sign = np.where(mirrored, -1, 1)
    return np.stack([sign * lines[x, 0], 2 * lines[x, 1], lines[y, 0], 2 * lines[y, 1]], 1).astype(np.float32)


@functools.cache
def _reduce(scale: float) -> Floats:
    """(shifts · 8, 32): means of pixels over the cells of each line of this scale."""
    edges, width = np.arange(SIDE + 1) / SIDE, CORE * scale / CELLS
    rows = []
    for shift in PLACES[scale]:
        starts = 0.5 + shift + width * (np.arange(CELLS) - CELLS / 2)
        shared = np.minimum(starts[:, None] + width, edges[1:]) - np.maximum(starts[:, None], edges[:-1])
        rows.append(shared.clip(0) / width)
    return np.concatenate(rows).astype(np.float32)


def cells(grey: Floats, scales: Sequence[float] = tuple(PLACES)) -> Floats:
    """(n, 32, 32) → the windows of each, of mean 0 and length 1: (n, windows, 64). Flat ones are zeros."""
    parts = []
    for scale in scales:
        reduce, lines = _reduce(scale), len(PLACES[scale])
        both = (reduce @ grey @ reduce.T).reshape(len(grey), lines, CELLS, lines, CELLS)
        parts.append(both.transpose(0, 1, 3, 2, 4).reshape(len(grey), lines * lines, CELLS * CELLS))
    taken: Floats = np.concatenate(parts, 1)
    taken -= taken.mean(axis=2, keepdims=True)
    length = np.sqrt(np.einsum("ntc,ntc->nt", taken, taken))[..., None]
    taken *= np.where(length > FLAT * CELLS, 1 / np.maximum(length, 1e-6), 0)
    return taken


def mirror(cell: Floats) -> Floats:
    """Windows of the picture's mirror image: (..., 64)."""
    return cell.reshape(*cell.shape[:-1], CELLS, CELLS)[..., ::-1].reshape(cell.shape)


class Fingerprints:
    """The cores of all pictures by the signs of their first cosine coefficients."""

    def __init__(self, cores: Floats) -> None:
        bits = int(np.clip(np.log2(max(len(cores), 2)) + 8, 14, 30))
        self.basis, odd = _cosines(bits)
        self.flip = int(_number(odd[None])[0])
        rows = np.flatnonzero(np.abs(cores).sum(axis=1) > 0)
        values = cores[rows] @ self.basis.T
        keys = _number(values > 0)
        weak = np.argsort(np.abs(values), axis=1)[:, :PROBES]  # (n, probes)
        tried = [keys]
        for probe in range(PROBES):
            tried += [known ^ (np.int64(1) << weak[:, probe]) for known in tried]
        keys = np.stack(tried, 1).ravel()
        order = np.argsort(keys, kind="stable")
        self.keys, self.rows = keys[order], np.repeat(rows, 1 << PROBES)[order]

    def find(
        self, windows: Floats
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Of each match among windows (n, T, 64): which of the n, row of the core, window, whether mirrored."""
        keys = _number(windows @ self.basis.T > 0).ravel()
        flat = np.abs(windows).sum(axis=2).ravel() == 0
        found = []
        for mirrored in (False, True):
            asked = keys ^ self.flip if mirrored else keys
            first = np.searchsorted(self.keys, asked)
            count = np.minimum(np.searchsorted(self.keys, asked, "right") - first, BUCKET)
            count[flat] = 0
            which = np.repeat(np.arange(len(keys)), count)
            place = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
            found.append((which, self.rows[place], np.full(len(which), mirrored)))
        which, rows, mirrored_too = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return which // windows.shape[1], rows, which % windows.shape[1], mirrored_too


def _cosines(count: int) -> tuple[Floats, NDArray[np.bool_]]:
    """The first cosine functions on the cells, slowest first, (count, 64), and which change sign when mirrored."""
    wave = np.cos(np.pi * (np.arange(CELLS) + 0.5) * np.arange(CELLS)[:, None] / CELLS)
    waves = [(v, u) for v in range(CELLS) for u in range(CELLS) if u + v]
    chosen = sorted(waves, key=lambda place: (place[0] ** 2 + place[1] ** 2, place))
    basis = np.stack([np.outer(wave[v], wave[u]).ravel() for v, u in chosen[:count]])
    return basis.astype(np.float32), np.array([u % 2 == 1 for _, u in chosen[:count]])


def _number(signs: NDArray[np.bool_]) -> NDArray[np.int64]:
    number: NDArray[np.int64] = signs @ (np.int64(1) << np.arange(signs.shape[-1]))
    return number


def likely_pairs(pictures: NDArray[np.uint8], neighbours: NDArray[np.int64]) -> Iterator[Pairs]:
    """Pairs whose cells correlate under some alignment: of each picture the likeliest, in parts.

    Args:
        pictures: (N, 3, 32, 32); may be mapped. A black one stands for none.
        neighbours: (N, k) rows that are worth comparing with each; -1 where there is none.
    """
    parts = [slice(start, start + AT_ONCE) for start in range(0, len(pictures), AT_ONCE)]
    cores = np.concatenate([cells(_grey(pictures[part]), [1.0])[:, MIDDLE] for part in parts])
    prints = Fingerprints(cores)
    with progress("comparing pictures", len(pictures)) as advance:
        for part in parts:
            windows = cells(_grey(pictures[part]))
            found = [
                _of_prints(prints, windows, cores, part.start),
                _of_neighbours(windows, cores, neighbours[part], part.start),
            ]
            yield _likeliest(Pairs(*(np.concatenate(columns) for columns in zip(*found, strict=True))))
            advance(len(windows))


def _grey(pictures: NDArray[np.uint8]) -> Floats:
    grey: Floats = pictures.mean(axis=1, dtype=np.float32)
    return grey


def _likeliest(pairs: Pairs) -> Pairs:
    """Of each picture the MOST best, each pair once; of equal ones the first, so that many equal ones hang together."""
    kept = np.flatnonzero((pairs.alike >= ALIKE) & (pairs.i != pairs.j))
    kept = kept[np.lexsort((-pairs.alike[kept], pairs.j[kept], pairs.i[kept]))]
    i, j = pairs.i[kept], pairs.j[kept]
    kept = kept[np.r_[True, (i[1:] != i[:-1]) | (j[1:] != j[:-1])][: len(kept)]]  # the best alignment of each pair
    kept = kept[np.lexsort((pairs.j[kept], -pairs.alike[kept].round(2), pairs.i[kept]))]
    i = pairs.i[kept]
    rank = np.arange(len(i)) - np.searchsorted(i, i)
    return Pairs(*(column[kept[rank < MOST]] for column in pairs))


def _of_prints(prints: Fingerprints, windows: Floats, cores: Floats, start: int) -> Pairs:
    i, j, window, mirrored = prints.find(windows)
    alike = np.empty(len(i), np.float32)
    for some in range(0, len(i), 1 << 16):
        at = slice(some, some + (1 << 16))
        core = cores[j[at]]
        core[mirrored[at]] = mirror(core[mirrored[at]])
        alike[at] = np.einsum("mc,mc->m", windows[i[at], window[at]], core)
    return Pairs(i + start, j, window, mirrored, alike)


def _of_neighbours(windows: Floats, cores: Floats, neighbours: NDArray[np.int64], start: int) -> Pairs:
    near = cores[neighbours]  # (n, k, 64)
    both = np.concatenate([near, mirror(near)], 1)  # (n, 2k, 64)
    alike = both @ windows.transpose(0, 2, 1)  # (n, 2k, T)
    window = alike.argmax(axis=2)
    best = np.take_along_axis(alike, window[..., None], 2)[..., 0]  # (n, 2k)
    best[np.tile(neighbours < 0, (1, 2))] = -1
    count, k = neighbours.shape
    i = np.repeat(np.arange(count) + start, 2 * k)
    mirrored = np.tile(np.repeat([False, True], k), count)
    return Pairs(i, np.tile(neighbours, (1, 2)).ravel(), window.ravel(), mirrored, best.ravel())
