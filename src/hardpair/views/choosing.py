"""What parameters.py chooses, in one loop: forty small operations of torch would take as long as a batch of views."""

import math

import numpy as np
from numpy.typing import NDArray

from hardpair.views.compiling import HALF, Floats, compiled

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]
TRIES = 10  # of a crop, as in geometry.py
LOG_ASPECT = np.float32(math.log(4 / 3))


@compiled
def choose(
    colours: Floats,  # (N, 10) random numbers, and
    places: Floats,  # (N, 26), used as in parameters.py
    factors: Floats,  # (2, 4): the lowest, and how far the highest is from it
    crop: Floats,  # (2,): of the area, the same two
    blur_sigma: Floats,  # (2,)
    shares: Floats,  # (5,) of images: jittered, flipped, blurred, grey, solarised
    size: int,
) -> tuple[Floats, Numbers, Numbers, Flags, Floats, Flags, Flags]:
    """The fields of Parameters, in their order."""
    count = len(colours)
    order, box = np.empty((count, 4), np.int64), np.empty((count, 4), np.int64)
    chosen, sigma = np.empty((count, 4), np.float32), np.zeros(count, np.float32)
    for n in range(count):
        chosen[n] = factors[0] + factors[1] * colours[n, :4]
        _sort_four(colours[n, 4:8], order[n])
        if colours[n, 8] >= shares[0]:
            order[n] = -1
        _crop(places[n], crop, size, box[n])
        if places[n, 23] < shares[2]:
            sigma[n] = blur_sigma[0] + blur_sigma[1] * places[n, 24]
    flipped, grey, solarised = places[:, 22] < shares[1], colours[:, 9] < shares[3], places[:, 25] < shares[4]
    return chosen, order, box, flipped, sigma, grey, solarised


@compiled
def _sort_four(values: Floats, order: Numbers) -> None:
    """Which is the smallest, which the next, and so on."""
    for i in range(4):
        smaller = 0
        for j in range(4):
            smaller += values[j] < values[i] or (values[j] == values[i] and j < i)
        order[smaller] = i


@compiled
def _crop(numbers: Floats, area: Floats, size: int, box: Numbers) -> None:
    """See crop_boxes in geometry.py."""
    height = width = size
    for k in range(TRIES):
        pixels = np.float32(size * size) * (area[0] + area[1] * numbers[k])
        ratio = np.exp((numbers[TRIES + k] - HALF) * (LOG_ASPECT + LOG_ASPECT))
        across, down = int(np.rint(np.sqrt(pixels * ratio))), int(np.rint(np.sqrt(pixels / ratio)))
        if 0 < across <= size and 0 < down <= size:
            height, width = down, across
            break
    box[0] = int(numbers[2 * TRIES] * np.float32(size - height + 1))
    box[1] = int(numbers[2 * TRIES + 1] * np.float32(size - width + 1))
    box[2], box[3] = height, width
