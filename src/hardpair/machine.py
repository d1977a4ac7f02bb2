"""What is settled with the machine before anything is computed: threads, and what becomes of freed memory."""

import ctypes
import math
import sys
from pathlib import Path

from hardpair.errors import UserError

A100_TFLOPS = {"float32": 22.0, "bfloat16": 50.0}
"""What each of eight sustains with ResNet-50, a seventh and a sixth of its peak (docs/explanation/scale.md)."""
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # mallopt's names for them, in malloc.h
NEVER = -1
LARGE = 1 << 30  # bytes; what is larger still goes back to the system at once


def prepare_to_compute(threads: int) -> None:
    """Set torch's threads, where asked to, and keep freed memory for the next step."""
    if threads < 0:
        raise UserError(f"threads: must be 0 (torch's choice) or more, not {threads}")
    keep_freed_memory()
    if threads:
        import torch  # here, since it takes seconds

        torch.set_num_threads(threads)


def keep_freed_memory() -> bool:
    """Let this process keep what it frees, and say whether it will.

    glibc gives large blocks back to the system and, when the next step asks for as much, takes them again page by page,
    each filled with zeros. Activations are such blocks, all of them. Without that, features of a ResNet-50 at 224 px
    take two thirds of the time on a CPU (benchmarks/freed_memory.py). Other C libraries have no such setting.
    """
    if not sys.platform.startswith("linux"):
        return False
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    return set_option is not None and all([set_option(TRIM_THRESHOLD, NEVER), set_option(MMAP_THRESHOLD, LARGE)])


def free_memory() -> float:
    """Bytes of memory that a process can still have; infinite where nobody says."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return math.inf
    return next((1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), math.inf)
