"""Where to compute, and how the CPU's memory is kept for it."""

import ctypes
import sys

import torch

from hardpair.errors import UserError


def pick_device(name: str) -> torch.device:
    """ "auto" is CUDA where there is one, else the CPU; anything else is taken by name."""
    try:
        device = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        first_line = str(error).splitlines()[0]
        raise UserError(f"device: {name!r} cannot be used ({first_line}); try auto or cpu") from error
    return device


def keep_freed_memory() -> None:
    """Let glibc reuse the memory of freed tensors instead of returning it to the system after every step.

    Otherwise each step asks for the same pages again and the kernel clears them again (benchmarks/allocator.py
    measures what that costs). Other systems and C libraries are left alone.
    """
    trim_threshold, mmap_max = -1, -4  # names of the options in malloc.h
    if not sys.platform.startswith("linux"):
        return
    library = ctypes.CDLL(None)
    if hasattr(library, "gnu_get_libc_version"):
        library.mallopt(trim_threshold, -1)
        library.mallopt(mmap_max, 0)
