"""Installation, processor, GPUs and disk; and how fast the demo trains on them."""

import os
import platform
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import IO, NamedTuple

import torch
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from torch import Tensor
from torch.nn import functional

from hardpair.data import open_images
from hardpair.doctor import Doctor, Finding, bad, good, warning
from hardpair.recipes import find_recipe
from hardpair.text import scaled, several
from hardpair.train import pick_device
from hardpair.train.plan import Gpus, make_plan
from hardpair.train.step import Stepper

NAMED = ("torch", "torchvision", "timm", "safetensors")  # whose versions are worth reading even when all is well
CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")  # how much of the cores a container may use
TOLERANCE = {"cpu": 1e-4, "cuda": 1e-2}  # largest error ÷ largest value; GPUs may convolve in TF32, with ten bits
TRIAL_BYTES, BLOCK_BYTES = 64_000_000, 1_000_000
SLOW_DISK = 20e6  # bytes per second; below that training waits long for its checkpoints
OTHER_DISK = "choose another place for runs with --run"
MEASURED_SECONDS = 0.5  # for each measurement of the demo
WORTH_A_WARNING = 1.25  # how much faster another number of threads must be


def check_installation(_options: Doctor) -> Iterator[Finding]:
    """Python and our dependencies, against the bounds of our own metadata."""
    try:
        own = metadata.metadata("hardpair")
    except metadata.PackageNotFoundError:
        advice = "install it (pip install .), so that the versions it needs are known"
        yield warning("python", f"{platform.python_version()}; hardpair itself is not installed", advice)
        return
    yield _python(own["Requires-Python"] or "")
    yield _packages(metadata.requires("hardpair") or [])


def _python(bounds: str) -> Finding:
    version = platform.python_version()
    if SpecifierSet(bounds).contains(version, prereleases=True):
        return good("python", f"{version}, wanted {bounds}")
    return bad("python", f"{version}, wanted {bounds}", "make a new environment with such a Python")


def _packages(lines: list[str]) -> Finding:
    """Required packages; extras for developers do not count."""
    requirements = [Requirement(line) for line in lines]
    needed = [r for r in requirements if r.marker is None or r.marker.evaluate({"extra": ""})]
    if wrong := [words for requirement in needed if (words := _mismatch(requirement))]:
        return bad("packages", "; ".join(wrong), "install them with pip install --upgrade hardpair")
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in NAMED)
    return good("packages", f"{versions} and {len(needed) - len(NAMED)} others are as wanted")


def _mismatch(requirement: Requirement) -> str:
    """What is wrong with a package; empty if nothing is."""
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return f"{requirement.name} is missing, wanted {requirement.specifier}"
    fits = requirement.specifier.contains(version, prereleases=True)
    return "" if fits else f"{requirement.name} is {version}, wanted {requirement.specifier}"


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
        quota, period = CPU_QUOTA.read_text().split()
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
    """Forward and backward, in single precision on the device and in double precision on the CPU."""
    check = f"numbers, {device}"
    found = [value.cpu().double() for value in _convolve(device, torch.float32)]
    reference = _convolve(torch.device("cpu"), torch.float64)
    error = max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(found, reference, strict=True))
    words = f"a convolution, forward and backward, differs by {error:.0e} from double precision"
    if all(bool(value.isfinite().all()) for value in found) and error <= TOLERANCE[device.type]:
        return good(check, words)
    return bad(check, words, "nothing that is computed here can be trusted: try another version of torch or driver")


def _convolve(device: torch.device, dtype: torch.dtype) -> list[Tensor]:
    """Outputs and gradients of a small layer with fixed numbers."""
    generator = torch.Generator().manual_seed(0)
    images, weights = (torch.randn(shape, generator=generator) for shape in ((4, 3, 16, 16), (8, 3, 3, 3)))
    images, weights = (value.to(device, dtype).requires_grad_() for value in (images, weights))
    outputs = functional.conv2d(images, weights, padding=1)
    return [outputs.detach(), *torch.autograd.grad(outputs.square().mean(), (images, weights))]


def check_disk(options: Doctor) -> Iterator[Finding]:
    """Free space and speed of the disk that will hold the runs; their folder need not exist yet."""
    runs = options.runs.absolute()
    folder = next(path for path in (runs, *runs.parents) if path.exists())
    yield _free_space(folder)
    yield _disk_speed(folder)


def _free_space(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    needed = make_plan(find_recipe("demo"), Gpus(1)).disk.checkpoints_while_saving
    found = f"{scaled(free, 'B')} free at {folder}; the demo keeps two checkpoints, and a third while it is written: "
    found += scaled(needed, "B")
    return good("disk room", found) if free > needed else bad("disk room", found, f"free some space, or {OTHER_DISK}")


def _disk_speed(folder: Path) -> Finding:
    try:
        with tempfile.TemporaryFile(dir=folder) as file:  # without a name, so that nothing can be left behind
            written, read = _write(file), _read(file)
    except OSError as error:
        return bad("disk speed", f"{folder}: cannot be written ({error.strerror or error})", OTHER_DISK)
    found = f"writes {scaled(written, 'B/s')} to the disk itself, reads {scaled(read, 'B/s')}"
    if written < SLOW_DISK:
        return warning("disk speed", found, f"checkpoints will hold training up: {OTHER_DISK}, or save them less often")
    return good("disk speed", found)


def _write(file: IO[bytes]) -> float:
    """Bytes per second, until they are on the disk."""
    block = os.urandom(BLOCK_BYTES)  # zeros might be written as a hole
    began = time.perf_counter()
    for _ in range(TRIAL_BYTES // BLOCK_BYTES):
        file.write(block)
    file.flush()
    os.fsync(file.fileno())
    return TRIAL_BYTES / (time.perf_counter() - began)


def _read(file: IO[bytes]) -> float:
    """Bytes per second, from the disk where the system lets us drop its copy in memory."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    file.seek(0)
    began = time.perf_counter()
    while file.read(BLOCK_BYTES):
        pass
    return TRIAL_BYTES / (time.perf_counter() - began)


class StepSeconds(NamedTuple):
    """How long a step of the demo takes."""

    views: float  # to take a batch and make its views
    whole: float


def check_rate(_options: Doctor) -> Iterator[Finding]:
    """Steps of the demo on the bundled photos, with several numbers of threads."""
    recipe, threads, device = find_recipe("demo"), torch.get_num_threads(), pick_device("auto")
    stepper = Stepper(recipe, open_images("sample", "train", size=recipe.image_size, root=Path()), device)
    choices = {1, max(1, cores() // 2), cores(), threads} if device.type == "cpu" else {threads}
    try:
        seconds = {count: _measure(stepper, count) for count in sorted(choices)}
    finally:
        torch.set_num_threads(threads)
    yield _data_rate(seconds[threads], recipe.batch_size)
    yield _best_threads(seconds, threads)


def _measure(stepper: Stepper, threads: int) -> StepSeconds:
    torch.set_num_threads(threads)
    stepper.method.train()

    def views(step: int) -> None:
        rows = stepper.rows(step)
        stepper.method.views(stepper.images.batch(rows).to(stepper.device), stepper.draw(step, rows))

    return StepSeconds(_mean_seconds(views, stepper.device), _mean_seconds(stepper.take, stepper.device))


def _mean_seconds(act: Callable[[int], object], device: torch.device) -> float:
    """Mean time of a call; the first is not counted."""
    act(0)
    _wait_for(device)
    began, times = time.perf_counter(), 0
    while time.perf_counter() - began < MEASURED_SECONDS:
        times += 1
        act(times)
        _wait_for(device)
    return (time.perf_counter() - began) / times


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _data_rate(seconds: StepSeconds, batch_size: int) -> Finding:
    """Views are made between steps, where training runs, so their time adds to that of the encoder."""
    share = min(1.0, seconds.views / seconds.whole)
    views, encoder = batch_size / seconds.views, batch_size / max(seconds.whole - seconds.views, 1e-9)
    found = f"the demo's views come at {views:,.0f} images/s, its encoder takes {encoder:,.0f} images/s"
    found += f": {share:.0%} of the time goes into views"
    if share > 0.5:
        return warning("data rate", found, "a larger encoder, or a GPU for views and encoder, would be used better")
    return good("data rate", found)


def _best_threads(seconds: dict[int, StepSeconds], threads: int) -> Finding:
    best = min(seconds, key=lambda count: seconds[count].whole)
    found = f"the demo runs best with {several(best, 'thread')} of {', '.join(map(str, seconds))} tried"
    gain = seconds[threads].whole / seconds[best].whole
    if gain > WORTH_A_WARNING:
        return warning("best threads", found, f"give --threads {best}: {gain:.1f} times as fast as {threads}")
    return good("best threads", found)
