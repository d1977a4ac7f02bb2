"""What the C library does with memory that is given back to it."""

import ctypes
import sys

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # mallopt's names for them, in malloc.h
NEVER = -1
LARGE = 1 << 30  # bytes; what is larger still goes back to the system at once


def keep_freed_memory() -> bool:
    """Let this process keep what it frees, and say whether it will.

    glibc gives large blocks back to the system and, when the next step asks for as much, takes them again page by page,
    each filled with zeros. Activations are such blocks, all of them, at every step: for a ResNet-18 of full width at
    32 px that is a sixth of the time on a CPU (benchmarks/freed_memory.py). Other C libraries have no such setting.
    """
    if not sys.platform.startswith("linux"):
        return False
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    return set_option is not None and all([set_option(TRIM_THRESHOLD, NEVER), set_option(MMAP_THRESHOLD, LARGE)])
