"""How loops over pixels are compiled.

A compiled function stands in one file with those that it calls: what numba keeps of it for the next process is made
anew when that file has changed, whatever has become of others.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Result = TypeVar("Result")

# Sums in any order, so that loops become vector instructions; no value here is infinite.
FAST = {"contract", "reassoc", "arcp", "nsz", "nnan", "ninf"}
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": FAST}

# With a whole number or a Python float numba would compute in 64 bits, half as fast.
ZERO, ONE, HALF = np.float32(0), np.float32(1), np.float32(0.5)


def compiled(function: Callable[..., Result]) -> Callable[..., Result]:
    """Compile a function, and keep the result for the next process where there is a place for it."""
    try:
        kept: Callable[..., Result] = numba.njit(cache=True, **OPTIONS)(function)
    except RuntimeError:  # neither the package's folder nor the user's can be written
        kept = numba.njit(**OPTIONS)(function)
    return kept
