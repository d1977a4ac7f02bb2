"""What this machine computes with, and whether it computes rightly."""

import os
import platform
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from hardpair.doctor.finding import Finding, bad, good, warning
from hardpair.doctor.options import Doctor
from hardpair.words import several

QUOTA = Path("/sys/fs/cgroup/cpu.max")  # how much of the cores a container may use
CLOSE = {"cpu": 1e-4, "cuda": 1e-2}  # largest error ÷ largest value; GPUs may convolve in TF32, with ten bits


def check_compute(_options: Doctor) -> Iterator[Finding]:
    """Processor, threads, GPUs, and a convolution on each of them."""
    yield _processor()
    yield _threads(torch.get_num_threads(), cores())
    yield _gpus()
    for device in ("cpu", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))):
        yield _convolution(torch.device(device))


def cores() -> int:
    """How many this process may use, by its affinity and by the quota of its container."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = QUOTA.read_text().split()
        return max(1, min(count, int(quota) // int(period)))
    except (OSError, ValueError):  # no such file, or "max"
        return count


def _processor() -> Finding:
    found = f"{several(cores(), 'core')}, {platform.machine()}, {torch.backends.cpu.get_cpu_capability()}"
    if platform.machine().lower() in ("x86_64", "amd64") and "AVX2" not in found and "AVX512" not in found:
        return warning("processor", found, "without AVX2 training is several times slower: prefer a newer machine")
    return good("processor", found)


def _threads(threads: int, available: int) -> Finding:
    found = f"torch uses {several(threads, 'thread')} on {several(available, 'core')}"
    if threads > available:
        return warning("threads", found, f"they will wait for each other: give --threads {available}")
    if threads < available / 2:  # half is what torch chooses where every core appears twice
        return warning("threads", found, f"give --threads {available}, or unset OMP_NUM_THREADS")
    return good("threads", found)


def _gpus() -> Finding:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count:
        facts = (torch.cuda.get_device_properties(number) for number in range(count))
        return good("gpu", ", ".join(f"{f.name} with {f.total_memory / 1e9:.0f} GB" for f in facts))
    if shutil.which("nvidia-smi") is None:
        return good("gpu", "none; training uses the processor")
    if torch.version.cuda is None:
        return warning("gpu", "there may be one, but this torch is built without CUDA", "install torch with CUDA")
    reason = str(said[0].message).splitlines()[0] if said else "CUDA finds none"
    return warning("gpu", f"there may be one, but torch cannot use it: {reason}", "see what nvidia-smi says")


def _convolution(device: torch.device) -> Finding:
    """Forward and backward, in single precision there and in double precision on the processor."""
    check = f"numbers, {device}"
    there = [value.cpu().double() for value in _convolve(device, torch.float32)]
    reference = _convolve(torch.device("cpu"), torch.float64)
    error = max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(there, reference, strict=True))
    found = f"a convolution, forward and backward, is {error:.0e} off its double precision"
    if all(bool(value.isfinite().all()) for value in there) and error <= CLOSE[device.type]:
        return good(check, found)
    return bad(check, found, "nothing that is computed here can be trusted: try another version of torch or driver")


def _convolve(device: torch.device, dtype: torch.dtype) -> list[Tensor]:
    """Outputs and gradients of a small layer with fixed numbers."""
    chance = torch.Generator().manual_seed(0)
    images, weights = (torch.randn(shape, generator=chance) for shape in ((4, 3, 16, 16), (8, 3, 3, 3)))
    images, weights = (value.to(device, dtype).requires_grad_() for value in (images, weights))
    outputs = functional.conv2d(images, weights, padding=1)
    outputs.square().mean().backward()
    assert images.grad is not None
    assert weights.grad is not None
    return [outputs.detach(), images.grad, weights.grad]
