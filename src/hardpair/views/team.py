"""Work shared among the threads that torch has already.

After an operation torch's threads wait for the next one, busily and for some milliseconds, each on a core of its own. A
thread of ours would find no core free and run on the caller's, after it or before it: two would then be no faster than
one. So where torch has GNU's OpenMP, as it does on Linux, the very threads that wait are given the work.
"""

import ctypes
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from torch import _C

CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def share(work: Callable[[int], None], parts: int) -> None:
    """Call ``work`` with 0, 1, ... ``parts - 1``, on as many threads; a fault in any of them is raised here."""
    left, faults = iter(range(parts)), list[BaseException]()

    def take_some(_: object = None) -> None:
        try:
            for part in left:
                work(part)
        except BaseException as fault:  # above this is only a loop in C
            faults.append(fault)

    if parts == 1:
        take_some()
    elif (parallel := _torchs_threads()) is not None:
        parallel(CALLBACK(take_some), None, parts, 0)
    else:
        own = _own_threads(parts - 1)
        others = [own.submit(take_some) for _ in range(parts - 1)]
        take_some()
        for other in others:
            other.result()
    if faults:
        raise faults[0]


@functools.cache
def _torchs_threads() -> Any:
    """What calls a function on several threads in GNU's OpenMP, out of the very library that torch uses."""
    return getattr(ctypes.CDLL(_C.__file__), "GOMP_parallel", None)


@functools.cache
def _own_threads(count: int) -> ThreadPoolExecutor:
    """Threads that stay: to start one takes a fifth of the time that it saves."""
    return ThreadPoolExecutor(count, thread_name_prefix="views")
