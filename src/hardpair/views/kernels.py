"""Views on a CPU, image by image: everything is done to an image while it lies in the nearest cache.

These are the operations of batched.py as loops over one image, compiled by numba. Planes are (3, H, W) floats in [0, 1]
and change in place. Tests compare each result with that of the batched operations.

All compiled functions are in this file: numba keeps what it has compiled for the next process, and compiles again when
the file of a function has changed, but does not see a change of another file that it calls into.
"""

import functools
import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardpair.pixels import MEAN, STD
from hardpair.views.batched import BRIGHTNESS, CONTRAST, GREY, HUE, SATURATION
from hardpair.views.parameters import ViewParameters
from hardpair.views.policies import Policy

CHUNK = 1 << 15  # pixels that a thread takes at a time; for fewer, handing them over takes longer than it saves

Floats = NDArray[np.float32]
Result = TypeVar("Result")

# Sums in any order, so that loops become vector instructions; no value here is infinite.
FAST = {"contract", "reassoc", "arcp", "nsz", "nnan", "ninf"}
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": FAST}

# With a whole number or a Python float numba would compute in 64 bits, half as fast.
ZERO, ONE, TWO, HALF, LOG_ASPECT = (np.float32(number) for number in (0, 1, 2, 0.5, math.log(4 / 3)))
NOTHING = np.full(4, -1)
SIX = np.float32(6)
SIXTH, THIRD, TWO_THIRDS, FIVE_SIXTHS = (np.float32(n / 6) for n in (1, 2, 4, 5))
OF_RED, OF_GREEN, OF_BLUE = (np.float32(weight) for weight in GREY)
LEVEL, TINY = np.float32(1 / 255), np.finfo(np.float32).tiny
SCALE = np.array([1 / std for std in STD], dtype=np.float32)
SHIFT = np.array([-mean / std for mean, std in zip(MEAN, STD, strict=True)], dtype=np.float32)


def kernel_view(images: Tensor, policy: Policy, chosen: ViewParameters, out: int) -> Tensor:
    """Normalised views of uint8 (N, 3, S, S), by these parameters: float (K, 3, out, out), channels last.

    Where there are parameters for more than N views, the images are gone through again. Threads share the views; which
    of them makes a view does not change it.
    """
    count, size, pixels = len(chosen.sigma), images.shape[-1], images.contiguous().numpy()
    width = policy.blur_width(out if policy.crop_first else size)
    view = torch.empty(count, out, out, 3)
    rows = [column.numpy() for column in (view, *vars(chosen).values())]
    threads = max(1, torch.get_num_threads() // 2)  # see _threads
    parts = 1 if threads == 1 else max(1, min(count, count * size * size // CHUNK))
    step = max(1, math.ceil(count / parts))
    left = iter(range(0, count, step))

    def make_some() -> None:
        for first in left:
            make_views(pixels, first, *(row[first : first + step] for row in rows), width, policy.crop_first)

    # This thread takes part: where torch's threads still hold the other cores, it makes most of the views.
    others = [_threads(threads, os.getpid()).submit(make_some) for _ in range(min(threads, parts) - 1)]
    make_some()
    for other in others:
        other.result()  # waits, and raises what a thread has raised
    return view.permute(0, 3, 1, 2)


@functools.cache
def _threads(count: int, _process: int) -> ThreadPoolExecutor:
    """Threads that stay, since starting one takes a fifth of the time that it saves; a forked process has none of them.

    They are not those of torch, which Python cannot hand work to and which wait busily on all cores after an operation.
    With as many of our own, a step was slower on two cores (docs/explanation/speed.md); so views take half as many.
    """
    return ThreadPoolExecutor(count, thread_name_prefix="views")


def compiled(function: Callable[..., Result]) -> Callable[..., Result]:
    """Compile a function, and keep the result for the next process where there is a place for it."""
    try:
        kept: Callable[..., Result] = numba.njit(cache=True, **OPTIONS)(function)
    except RuntimeError:  # neither the package's folder nor the user's can be written
        kept = numba.njit(**OPTIONS)(function)
    return kept


@compiled
def choose(
    colours: Floats,  # (N, 10 or more) random numbers, and
    places: Floats,  # (N, 26)
    factors: Floats,  # (2, 4): the lowest, and how far the highest is from it
    crop: Floats,  # (2,): of the area, the same two
    blur_sigma: Floats,  # (2,)
    shares: Floats,  # (5,) of images: jittered, flipped, blurred, grey, solarised
    size: int,
) -> tuple[NDArray[Any], ...]:
    """The fields of ViewParameters in order, as in parameters.py; in torch, the demo's step takes 1 to 2 % longer."""
    count = len(colours)
    order, box = np.empty((count, 4), np.int64), np.empty((count, 4), np.int64)
    chosen, sigma = np.empty((count, 4), np.float32), np.zeros(count, np.float32)
    for n in range(count):
        chosen[n] = factors[0] + factors[1] * colours[n, :4]
        order[n] = np.argsort(colours[n, 4:8]) if colours[n, 8] < shares[0] else NOTHING
        _crop(places[n], crop, size, box[n])
        if places[n, 23] < shares[2]:
            sigma[n] = blur_sigma[0] + blur_sigma[1] * places[n, 24]
    flipped, grey, solarised = places[:, 22] < shares[1], colours[:, 9] < shares[3], places[:, 25] < shares[4]
    return chosen, order, box, flipped, sigma, grey, solarised


@compiled
def _crop(numbers: Floats, area: Floats, size: int, box: NDArray[np.int64]) -> None:
    """See crop_boxes in parameters.py."""
    height = width = size
    for k in range(10):
        pixels = np.float32(size * size) * (area[0] + area[1] * numbers[k])
        ratio = np.exp((TWO * numbers[10 + k] - ONE) * LOG_ASPECT)
        down, across = int(np.rint(np.sqrt(pixels / ratio))), int(np.rint(np.sqrt(pixels * ratio)))
        if 0 < across <= size and 0 < down <= size:
            height, width = down, across
            break
    box[0] = int(numbers[20] * np.float32(size - height + 1))
    box[1] = int(numbers[21] * np.float32(size - width + 1))
    box[2], box[3] = height, width


@compiled
def make_views(
    images: NDArray[np.uint8],  # (N, 3, S, S)
    first: int,
    views: Floats,  # (K, T, T, 3), written
    factors: Floats,  # (K, 4)
    order: NDArray[np.int64],  # (K, 4)
    box: NDArray[np.int64],  # (K, 4)
    flipped: NDArray[np.bool_],  # (K,), as all that follow
    sigma: Floats,
    grey: NDArray[np.bool_],
    solarised: NDArray[np.bool_],
    blur_width: int,
    crop_first: bool,
) -> None:
    """Make K views, of the image ``first`` and those after it; the rest are the fields of ViewParameters, in order."""
    size, out = images.shape[2], views.shape[1]
    image, view = np.empty((3, size, size), np.float32), np.empty((3, out, out), np.float32)
    stretched = np.empty((out, size), np.float32)
    coloured = view if crop_first else image
    luminance = np.empty(coloured.size // 3, np.float32)
    for n in range(len(views)):
        _read(images[(first + n) % len(images)].ravel(), image.ravel())
        if crop_first:
            _resize(image, stretched, view, box[n], flipped[n])
        _jitter(coloured.reshape(3, -1), factors[n], order[n], luminance)
        if grey[n]:
            _luminance(coloured.reshape(3, -1), luminance)
            coloured.reshape(3, -1)[:] = luminance
        if sigma[n] > 0:
            _blur(coloured, blur_width, sigma[n])
        if not crop_first:
            _resize(image, stretched, view, box[n], flipped[n])
        if solarised[n]:
            _solarise(view.ravel())
        _normalise(view.reshape(3, -1), views[n].ravel())


@compiled
def _read(levels: NDArray[np.uint8], values: Floats) -> None:
    for i in range(levels.size):
        values[i] = levels[i] * LEVEL


@compiled
def _normalise(planes: Floats, pixels: Floats) -> None:
    red, green, blue = planes[0], planes[1], planes[2]
    for i in range(red.size):
        pixels[3 * i] = red[i] * SCALE[0] + SHIFT[0]
        pixels[3 * i + 1] = green[i] * SCALE[1] + SHIFT[1]
        pixels[3 * i + 2] = blue[i] * SCALE[2] + SHIFT[2]


@compiled
def _solarise(values: Floats) -> None:
    for i in range(values.size):
        value = values[i]
        values[i] = ONE - value if value >= HALF else value


@compiled
def _luminance(planes: Floats, luminance: Floats) -> None:
    red, green, blue = planes[0], planes[1], planes[2]
    for i in range(luminance.size):
        luminance[i] = OF_RED * red[i] + OF_GREEN * green[i] + OF_BLUE * blue[i]


@compiled
def _jitter(planes: Floats, factors: Floats, order: NDArray[np.int64], luminance: Floats) -> None:
    for operation in order:
        if operation == BRIGHTNESS:
            luminance[:] = ZERO
        elif operation in (CONTRAST, SATURATION):
            _luminance(planes, luminance)
        if operation == CONTRAST:
            luminance[:] = luminance.sum() / np.float32(luminance.size)
        if operation == HUE:
            _hue(planes, factors[HUE])
        elif operation >= 0:
            _blend(planes, luminance, factors[operation])


@compiled
def _blend(planes: Floats, other: Floats, factor: np.float32) -> None:
    for c in range(3):
        plane = planes[c]
        for i in range(other.size):
            plane[i] = min(max(other[i] + factor * (plane[i] - other[i]), ZERO), ONE)


@compiled
def _hue(planes: Floats, shift: np.float32) -> None:
    """See batched.py for the formula."""
    red, green, blue = planes[0], planes[1], planes[2]
    for i in range(red.size):
        r, g, b = red[i], green[i], blue[i]
        value = max(r, g, b)
        chroma = SIX * (value - min(r, g, b))
        scale = ONE / max(chroma, TINY)
        turn = shift + (
            (g - b) * scale if value == r else THIRD + (b - r) * scale if value == g else TWO_THIRDS + (r - g) * scale
        )
        red[i] = value - chroma * _falloff(turn - HALF)
        green[i] = value - chroma * _falloff(turn - FIVE_SIXTHS)
        blue[i] = value - chroma * _falloff(turn - SIXTH)


@compiled
def _falloff(away: np.float32) -> np.float32:
    return min(max(THIRD - abs(away - np.rint(away)), ZERO), SIXTH)


@compiled
def _resize(image: Floats, stretched: Floats, view: Floats, box: NDArray[np.int64], flipped: bool) -> None:
    """Crop, flip and resize: rows first, which is a sum of whole rows, then columns. ``stretched`` is room, (T, S)."""
    size, out = image.shape[1], view.shape[1]
    top, left, height, width = box
    above, of_rows = _looks(top, height, size, out)
    before, of_columns = _looks(left, width, size, out)
    if flipped:  # the crop was of the flipped image
        before, of_columns = size - len(of_columns) - before, of_columns[::-1].copy()
    for c in range(3):
        _stretch(image[c], above, of_rows, stretched)
        picked = view[c]
        for x in range(out):  # downwards: along a row, vector code that picks pixels would take longer
            place, one, other = before[x], of_columns[0, x], of_columns[1, x]
            for y in range(out):
                picked[y, x] = one * stretched[y, place] + other * stretched[y, place + 1]
            for k in range(2, len(of_columns)):
                place, one = before[x] + k, of_columns[k, x]
                for y in range(out):
                    picked[y, x] += one * stretched[y, place]


@compiled
def _stretch(plane: Floats, first: NDArray[np.int64], weights: Floats, stretched: Floats) -> None:
    for y in range(len(stretched)):
        row = stretched[y]
        row[:] = ZERO
        for k in range(len(weights)):
            weight, source = weights[k, y], plane[first[y] + k]
            for x in range(row.size):
                row[x] += weight * source[x]


@compiled
def _looks(start: int, length: int, size: int, out: int) -> tuple[NDArray[np.int64], Floats]:
    """The first pixel that each of ``out`` pixels looks at, and the weights (K, out) of that one and the next.

    For a crop of [start, start + length) of an axis of ``size`` pixels, like shrinking_matrix in batched.py. K is 2 or
    more, as images have at least 8 pixels a side.
    """
    step = np.float32(length / out)
    reach = max(step, ONE)
    count = min(math.ceil(2 * reach), size)
    begin, end, last = np.float32(start), np.float32(start + length), np.float32(size - count)
    position, first = np.empty(out, np.float32), np.empty(out, np.float32)
    weights, total = np.empty((count, out), np.float32), np.zeros(out, np.float32)
    for i in range(out):
        position[i] = begin + step * (np.float32(i) + HALF)
        first[i] = max(min(np.floor(position[i] - reach - HALF) + ONE, last), ZERO)
    for k in range(count):
        weight, half = weights[k], np.float32(k) + HALF
        for i in range(out):
            centre = first[i] + half
            nearness = max(reach - abs(centre - position[i]), ZERO)
            weight[i] = nearness if begin < centre < end else ZERO
            total[i] += weight[i]
    for k in range(count):
        weights[k] /= total
    return first.astype(np.int64), weights


@compiled
def _blur(planes: Floats, width: int, sigma: np.float32) -> None:
    """Along rows, then along columns; borders are reflected without repeating them."""
    size, half = planes.shape[1], width // 2
    weights = np.exp(np.float32(-0.5) * ((np.arange(width) - half).astype(np.float32) / sigma) ** 2)
    weights /= weights.sum()
    across = np.empty((size, size), np.float32)
    for c in range(3):
        _blur_rows(planes[c], weights, across)
        _blur_columns(across, weights, planes[c])


@compiled
def _blur_rows(plane: Floats, weights: Floats, blurred: Floats) -> None:
    size, half = len(plane), len(weights) // 2
    row = np.empty(size + 2 * half, np.float32)
    for y in range(size):
        for x in range(-half, size + half):
            row[x + half] = plane[y, _reflected(x, size)]
        total = blurred[y]
        total[:] = ZERO
        for k in range(len(weights)):
            moved = row[k:]
            for x in range(size):
                total[x] += weights[k] * moved[x]


@compiled
def _blur_columns(plane: Floats, weights: Floats, blurred: Floats) -> None:
    size, half = len(plane), len(weights) // 2
    for y in range(size):
        total = blurred[y]
        total[:] = ZERO
        for k in range(len(weights)):
            source = plane[_reflected(y + k - half, size)]
            for x in range(size):
                total[x] += weights[k] * source[x]


@compiled
def _reflected(place: int, size: int) -> int:
    return (size - 1) - abs((size - 1) - abs(place))
