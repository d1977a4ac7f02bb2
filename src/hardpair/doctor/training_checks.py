"""Checks that train a little: narrow encoders under checked memory, an interrupted run, two processes.

Narrow encoders and the two processes train in child processes: ``python -m hardpair.doctor.training_checks CHECK …``.
"""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hardpair import distributed
from hardpair.data import open_images
from hardpair.doctor import Doctor, Finding, bad, good
from hardpair.files import write_atomically
from hardpair.precision import Precision
from hardpair.recipes import Recipe
from hardpair.text import several
from hardpair.train import pretrain
from hardpair.train.parallel import process_group
from hardpair.train.step import Stepper

CPU = torch.device("cpu")
THIS_MODULE = "hardpair.doctor.training_checks"
STEPS = 20  # an epoch of the 5,000 photos
TINY = Recipe(
    name="doctor",
    image_size=8,
    encoder="resnet10",
    width=1 / 16,
    epochs=1,
    batch_size=250,
    settings={"head_hidden": 32, "head_outputs": 16, "alpha_pos": 1.0, "alpha_neg": 1.0, "norm": "l2"},
)
"""The smallest real training: bundled photos at eight pixels, an encoder of a sixteenth of the width."""


# Narrow layers are where a CPU library may write past the end of its memory (models/narrow_strides.py). Such a write
# may crash, or change other numbers unseen; under these checks of every freed block it ends the process.
CHECKED_MEMORY = {
    "LD_PRELOAD": "libc_malloc_debug.so.0",  # since 2.34 glibc's checks are in a library of their own
    "MALLOC_CHECK_": "3",
    "MALLOC_PERTURB_": "165",  # what is freed is overwritten
}
NARROW_SECONDS = 300
METHOD_OF = {
    "basic": "simclr",
    "bottleneck": "simclr",
    "selective": "simclr",
    "colour streams": "cmc",
    "patches": "cpc",
}


class NarrowCase(NamedTuple):
    """A kind of encoder, how wide it is, and the side of its images."""

    kind: str
    width: float
    size: int

    def __str__(self) -> str:
        return f"{self.kind} of width {self.width:g} at {self.size} px"


ONE_OF_EACH_KIND = [NarrowCase(kind, 1 / 8 if kind == "colour streams" else 1 / 16, 64) for kind in METHOD_OF]


def check_narrow(_options: Doctor) -> Iterator[Finding]:
    """A step of one narrow encoder of each kind."""
    check = "narrow layers"
    if (fault := find_fault(ONE_OF_EACH_KIND)) is None:
        yield good(check, f"{several(len(ONE_OF_EACH_KIND), 'kind')} of narrow encoders train within their memory")
        return
    advice = "train encoders with at least 16 channels in every layer, or with another version of torch"
    yield bad(check, fault, advice)


def find_fault(
    cases: Sequence[NarrowCase], environment: Mapping[str, str] | None = None, *, precision: Precision = "float32"
) -> str | None:
    """Train each in one child process; says which one ended it and how, None where all went well."""
    words = [sys.executable, "-m", THIS_MODULE, "narrow", json.dumps(cases), precision]
    settings = {**os.environ, **CHECKED_MEMORY, **(environment or {})}
    try:
        child = subprocess.run(words, env=settings, capture_output=True, text=True, timeout=NARROW_SECONDS, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        return f"training narrow encoders took more than {NARROW_SECONDS} s"
    if child.returncode == 0:
        return None
    begun = child.stdout.split("\n")[:-1]
    how = signal.Signals(-child.returncode).name if child.returncode < 0 else f"exit code {child.returncode}"
    said = (child.stderr.strip().splitlines() or [""])[-1]
    return f"training {begun[-1] if begun else 'nothing'} ended with {how}{f' ({said})' if said else ''}"


def train_narrow_encoders(cases: list[NarrowCase], precision: Precision) -> None:
    """In the child: name each case before it trains, so that it is known which one ended this process."""
    torch.set_num_threads(1)
    for case in cases:
        print(case, flush=True)
        settings: dict[str, int] = {"patch": case.size // 4 & ~1} if case.kind == "patches" else {}
        recipe = Recipe(
            name="narrow",
            method=METHOD_OF[case.kind],
            data="sample:100",
            image_size=case.size,
            encoder="resnet10" if case.kind in ("basic", "colour streams", "patches") else "resnet14",
            width=case.width,
            sk=case.kind == "selective",
            batch_size=8 if case.width <= 1 / 8 else 2,  # wide ones are safe, and slow
            precision=precision,
            settings=settings,
        )
        stepper = Stepper(recipe, open_images(recipe.data, "train", size=case.size, root=Path()), CPU)
        stepper.method.train()
        if not stepper.take(0).sound:
            sys.exit("the loss or the gradient is not finite")


PAUSE = 9  # steps; not where anything else happens


def check_resume(_options: Doctor) -> Iterator[Finding]:
    """Twenty steps at once, and the same in two parts: on a CPU both end with the same bytes."""
    with tempfile.TemporaryDirectory(prefix="hardpair-doctor-") as folder:
        whole, parts = Path(folder, "whole"), Path(folder, "parts")
        _train(whole)
        _train(parts, until=PAUSE)
        _train(parts, resume=True)
        different = [name for name, content in _end_of(whole).items() if _end_of(parts)[name] != content]
    found = f"a run of {STEPS} steps, interrupted after {PAUSE} and resumed,"
    if not different:
        yield good("resume", f"{found} ends with the same bytes as an uninterrupted one")
        return
    advice = "runs can be resumed here, but not bit for bit; another version of torch may be"
    yield bad("resume", f"{found} differs at the end from an uninterrupted one, in {' and '.join(different)}", advice)


def _train(run: Path, *, until: int | None = None, resume: bool = False) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        outcome = pretrain(TINY, run, until=until, resume=resume, device="cpu")  # a GPU may round differently each time
    if outcome.status == "stopped":  # Ctrl-C asks the run to save and stop; here it means the doctor
        raise KeyboardInterrupt


def _end_of(run: Path) -> dict[str, bytes]:
    """Encoder, and everything else that the last checkpoint holds."""
    state = run / "checkpoints" / f"{STEPS:09d}" / "state.safetensors"
    return {"encoder": (run / "encoder.safetensors").read_bytes(), "checkpoint": state.read_bytes()}


PROCESSES_SECONDS = 120  # until we give up; a busy machine needs a quarter of it
TOLERANCE = 1e-9  # in double precision
FACTS_FILE = "facts.json"
ERROR = re.compile(r"^(?:\[rank\d+\]: ?)?((?:\w+\.)*\w*(?:Error|Exception)\b.*)", re.MULTILINE)
ADVICE = {
    r"GLOO_SOCKET_IFNAME|unable to find address": "GLOO_SOCKET_IFNAME names no interface of this machine: set it to lo",
    r"not known|getaddrinfo|gethostby|hostname|resolve": "this machine does not find itself by its name: add the name "
    "to /etc/hosts, or set GLOO_SOCKET_IFNAME=lo",
    r"not done within": "the machine may be too busy, or a firewall keeps the processes apart: try again later",
    r"refused|timed out|timeout|unreachable|connectFullMesh|not permitted": "a firewall may keep the processes "
    "apart: let this machine connect to itself, or set GLOO_SOCKET_IFNAME=lo",
}
ONE_PROCESS_WORKS = "training in one process is not affected"


def check_processes(_options: Doctor) -> Iterator[Finding]:
    """Two processes communicate, and share a step that gives what one process gives."""
    with tempfile.TemporaryDirectory(prefix="hardpair-doctor-", ignore_cleanup_errors=True) as folder:
        error = _launch(Path(folder))
        file = Path(folder, FACTS_FILE)
        facts = json.loads(file.read_text()) if file.exists() else {}
    yield _communication(facts, error)
    yield _two_as_one(facts, error)


def _launch(folder: Path) -> str:
    """Start two processes with torchrun; their error if they failed, else nothing."""
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    words += ["--module", THIS_MODULE, "processes", str(folder), str(PROCESSES_SECONDS)]
    environment = {**os.environ, "TMPDIR": str(folder)}  # torchrun leaves folders for its logs
    with (
        (folder / "errors").open("w+", errors="replace") as errors,
        subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=errors, env=environment) as launcher,  # noqa: S603
    ):
        try:
            code = launcher.wait(PROCESSES_SECONDS)
        except subprocess.TimeoutExpired:
            return f"two processes were not done within {PROCESSES_SECONDS} s"
        finally:
            _terminate(launcher)
        errors.seek(0)
        return _first_error(errors.read(), code) if code else ""


def _terminate(launcher: "subprocess.Popen[bytes]") -> None:
    """Ask it to stop with its processes; should it not, they have an alarm of their own."""
    launcher.terminate()
    try:
        launcher.wait(5)
    except subprocess.TimeoutExpired:
        launcher.kill()


def _first_error(stderr: str, code: int) -> str:
    """The first error in what torchrun and both processes wrote."""
    found = ERROR.search(stderr)
    return found[1][:300] if found else f"two processes ended with exit code {code}"


def _communication(facts: dict[str, Any], error: str) -> Finding:
    if facts.get("met"):
        return good("process group", "two processes met, gathered and summed")
    found = "two processes met, but what they gathered and summed is wrong" if "met" in facts else error
    return bad("process group", found, f"{advice_on(found)}; {ONE_PROCESS_WORKS}")


def advice_on(error: str) -> str:
    """What to do about an error of processes that should communicate."""
    fitting = (words for pattern, words in ADVICE.items() if re.search(pattern, error, re.IGNORECASE))
    return next(fitting, "several processes cannot be used here")


def _two_as_one(facts: dict[str, Any], error: str) -> Finding:
    check = "two as one"
    if "loss" not in facts:
        reason = error if "met" in facts else "the processes did not meet"
        return bad(check, f"not compared: {reason}", ONE_PROCESS_WORKS)
    worst = max(facts["loss"], facts["gradients"])
    if facts["loss"] <= TOLERANCE and facts["gradients"] <= TOLERANCE:
        return good(check, f"two processes have the loss and gradients of one, up to {worst:.0e}")
    found = f"loss {facts['loss']:.0e} and gradients {facts['gradients']:.0e} apart from those of one process"
    return bad(check, found, f"do not share a run among processes here; {ONE_PROCESS_WORKS}")


def compare_with_one_process(folder: Path, seconds: int) -> None:
    """In each of the two: a step alone, then the same step together; rank 0 writes facts as soon as it has them."""
    signal.alarm(seconds)  # no process may linger, should the one that started it be gone
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    alone = first_step()
    with process_group(CPU):
        own = torch.tensor([float(distributed.rank())])
        met = distributed.gather(own).tolist() == [0.0, 1.0] and distributed.all_reduce(own + 1).tolist() == [3.0]
        _write_facts(folder, {"met": met})
        _write_facts(folder, {"met": met, **relative_differences(alone, first_step())})


def _write_facts(folder: Path, facts: dict[str, Any]) -> None:
    if distributed.is_main():
        write_atomically(folder / FACTS_FILE, json.dumps(facts).encode())


def first_step() -> dict[str, Tensor]:
    """Loss and gradients, over all processes of the group."""
    images = open_images(TINY.data, "train", size=TINY.image_size, root=Path())
    stepper = Stepper(TINY, images, CPU)
    stepper.method.train()
    rows = stepper.rows(0)
    loss = stepper.forward(stepper.method.views(images.batch(rows), stepper.draw(0, rows)))["loss"]
    loss.backward()
    gradients = [p.grad.flatten() for p in stepper.trained if p.grad is not None]
    return {"loss": distributed.mean(loss), "gradients": torch.cat(gradients)}


def relative_differences(alone: dict[str, Tensor], together: dict[str, Tensor]) -> dict[str, float]:
    """The largest difference of each, as a share of the largest value."""
    return {name: float((together[name] - value).abs().max() / value.abs().max()) for name, value in alone.items()}


if __name__ == "__main__":
    if sys.argv[1] == "narrow":
        train_narrow_encoders(
            [NarrowCase(*case) for case in json.loads(sys.argv[2])],
            "bfloat16" if sys.argv[3] == "bfloat16" else "float32",
        )
    else:
        compare_with_one_process(Path(sys.argv[2]), int(sys.argv[3]))
