"""Files that a stranger might hand over: pickles that run code, and safetensors made by hand."""

import io
import json
import pickle
import resource
import signal
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from PIL import Image


class Trap:
    """Unpickled, it leaves a file behind: proof that code ran."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.canary,)


def trap(folder: Path) -> tuple[bytes, Path]:
    """A pickle, and the file that appears should anybody load it."""
    canary = folder / "canary"
    content = pickle.dumps({"weight": Trap(canary)})
    pickle.loads(content)
    assert canary.exists(), "the trap works"
    canary.unlink()
    return content, canary


class HangError(BaseException):
    """Not an Exception, so that nobody takes it for trouble with a file."""


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """A watchdog: what hangs fails."""

    def bark(_signal: int, _frame: FrameType | None) -> NoReturn:
        raise HangError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, bark)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def little_memory(megabytes: int) -> Iterator[None]:
    """Fails where the process grows by more than that, even for a moment."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # Linux forgets the peak so far; elsewhere the test is weaker
    before = peak_memory()
    yield
    assert peak_memory() - before < megabytes


@contextmanager
def largest_file(length: int) -> Iterator[None]:
    """A disk on which no file can be longer: the nearest thing to a full one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (length, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def peak_memory() -> float:
    """The most that this process has had in memory, in megabytes."""
    status = Path("/proc/self/status")  # getrusage of a started process may count that of the one that started it
    lines = status.read_text().splitlines() if status.exists() else []
    marks = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
    return (marks[0] if marks else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / 1024


def safetensors(header: object, data: bytes = b"", *, length: int | None = None) -> bytes:
    """A file with this header (an object, or bytes as they are), which may lie about the header's length."""
    packed = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(packed) if length is None else length) + packed + data


def tensor(kind: str, shape: list[int], start: int, end: int) -> dict[str, object]:
    """One entry of such a header."""
    return {"dtype": kind, "shape": shape, "data_offsets": [start, end]}


BAD_SAFETENSORS = {
    "empty": b"",
    "header of 2**60 bytes": safetensors({}, length=2**60),
    "header of 2**64 - 1 bytes": safetensors({}, length=2**64 - 1),
    "header longer than the file": safetensors({}, length=99_000_000),
    "deep lists": safetensors(b"[" * 100_000),
    "deep objects": safetensors(b'{"a":' * 50_000 + b"1" + b"}" * 50_000),
    "deep metadata": safetensors(b'{"__metadata__":' + b"[" * 50_000 + b"]" * 50_000 + b"}"),
    "overlapping tensors": safetensors({"a": tensor("F32", [2], 0, 8), "b": tensor("F32", [2], 4, 12)}, bytes(12)),
    "one tensor twice": safetensors({"a": tensor("F32", [2], 0, 8), "b": tensor("F32", [2], 0, 8)}, bytes(8)),
    "a hole": safetensors({"a": tensor("F32", [2], 0, 8), "b": tensor("F32", [2], 12, 20)}, bytes(20)),
    "more data than tensors": safetensors({"a": tensor("F32", [2], 0, 8)}, bytes(20)),
    "ends before it starts": safetensors({"a": tensor("F32", [2], 8, 0)}, bytes(8)),
    "beyond the end": safetensors({"a": tensor("F32", [2**40], 0, 2**42)}, bytes(8)),
    "unknown type": safetensors({"a": tensor("PY", [2], 0, 8)}, bytes(8)),
    "another shape than its bytes": safetensors({"a": tensor("F32", [3], 0, 8)}, bytes(8)),
    "negative shape": safetensors({"a": tensor("F32", [-2], 0, 8)}, bytes(8)),
    "shape that overflows": safetensors({"a": tensor("F32", [2**62, 2**62], 0, 8)}, bytes(8)),
    "nothing, but 2**63 of it": safetensors({"0.weight": tensor("F32", [2**63, 0], 0, 0)}),
    "nothing, but 2**40 of it": safetensors({"0.weight": tensor("F32", [2**40, 0], 0, 0)}),
    "types of half a byte": safetensors({"a": tensor("F4", [2], 0, 1)}, bytes(1)),
    "names like paths": safetensors({"../../x\n\x1b[31m": tensor("F32", [2], 0, 8)}, bytes(8)),
    "a very long name": safetensors({"x" * 1_000_000: tensor("F32", [2], 0, 8)}, bytes(8)),
    "a thousand dimensions": safetensors({"0.weight": tensor("F32", [1] * 1000, 0, 4)}, bytes(4)),
}
"""None of these may be loaded as the weights of anything."""

DEEP = "[" * 100_000 + "]" * 100_000
"""JSON that Python's own reader gives up on."""
STEEP = '{"a": ' * 900 + "1" + "}" * 900
"""JSON that Python reads, and then cannot print or compare."""


def npy(header: str, data: bytes = b"") -> bytes:
    """A file of numpy's with this header, whatever it says."""
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


BAD_NPY = {
    "more than there is": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1152921504606846976, 16), }\n"),
    "a shape of 40 digits": npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({10**40}, 16), }}\n"),
    "negative": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 16), }\n", bytes(64)),
    "deep": npy("(" * 9000),
    "deep signs": npy("-" * 9000 + "1"),
    "a call": npy("__import__('os').system('true')"),
    "objects": npy("{'descr': '|O', 'fortran_order': False, 'shape': (1, 16), }\n", bytes(128)),
    "a longer header than the file": b"\x93NUMPY\x02\x00\xff\xff\xff\xff",
    "nothing": b"",
}
"""None of these may be taken for cached pixels or features."""


def saved(kind: str, image: Image.Image | None = None, **options: object) -> bytes:
    """A picture as the content of a file of that kind."""
    out = io.BytesIO()
    (image or Image.new("RGB", (64, 64), (200, 10, 10))).save(out, kind, **options)
    return out.getvalue()
