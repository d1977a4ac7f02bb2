"""Freed memory stays with the process."""

import subprocess
import sys

import pytest

ROUNDS, BLOCK = 20, 48 << 20
PROGRAM = f"""
import ctypes, resource
from hardpair.machine import keep_freed_memory, prepare_to_compute
{{prepare}}
c = ctypes.CDLL(None)
c.malloc.restype, c.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
c.memset.argtypes, c.free.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t], [ctypes.c_void_p]
def use():
    block = c.malloc({BLOCK})
    c.memset(block, 1, {BLOCK})
    c.free(block)
use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({ROUNDS}):
    use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(prepare: str) -> int:
    """Pages that the system had to give a process which uses the same amount of memory again and again."""
    program = PROGRAM.format(prepare=prepare)
    return int(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's way with memory")
def test_memory_once_used_is_not_asked_for_again() -> None:
    assert faults("") > 10 * ROUNDS  # also where pages are huge, 24 a block
    assert faults("assert keep_freed_memory()") < ROUNDS
    assert faults("prepare_to_compute(threads=0)") < ROUNDS
