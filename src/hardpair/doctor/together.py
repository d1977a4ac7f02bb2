"""Whether two processes of this machine find each other, and learn what one would learn."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hardpair.doctor.finding import Finding, bad, good
from hardpair.doctor.options import Doctor
from hardpair.doctor.worker import TOLD

SECONDS = 120  # until we give up; a busy machine needs a quarter of it
CLOSE = 1e-9  # in double precision
ERROR = re.compile(r"^(?:\[rank\d+\]: ?)?((?:\w+\.)*\w*(?:Error|Exception)\b.*)", re.MULTILINE)
ADVICE = {
    r"GLOO_SOCKET_IFNAME|unable to find address": "GLOO_SOCKET_IFNAME names no interface of this machine: set it to lo",
    r"not known|getaddrinfo|gethostby|hostname|resolve": "this machine does not find itself by its name: add the name "
    "to /etc/hosts, or set GLOO_SOCKET_IFNAME=lo",
    r"not done within": "the machine may be too busy, or a firewall keeps the processes apart: try again later",
    r"refused|timed out|timeout|unreachable|connectFullMesh|not permitted": "a firewall may keep the processes "
    "apart: let this machine connect to itself, or set GLOO_SOCKET_IFNAME=lo",
}
ALONE = "training in one process is not touched by this"


def check_together(_options: Doctor) -> Iterator[Finding]:
    """A meeting, and a step that both share."""
    with tempfile.TemporaryDirectory(prefix="hardpair-doctor-", ignore_cleanup_errors=True) as folder:
        said = _launch(Path(folder))
        told = Path(folder, TOLD)
        facts = json.loads(told.read_text()) if told.exists() else {}
    yield _group(facts, said)
    yield _equal(facts, said)


def _launch(folder: Path) -> str:
    """Let two processes work; what they said if they failed, else nothing."""
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    words += ["--module", "hardpair.doctor.worker", str(folder), str(SECONDS)]
    environment = {**os.environ, "TMPDIR": str(folder)}  # torchrun leaves folders for its logs
    with (
        (folder / "errors").open("w+", errors="replace") as errors,
        subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=errors, env=environment) as launcher,  # noqa: S603
    ):
        try:
            code = launcher.wait(SECONDS)
        except subprocess.TimeoutExpired:
            return f"two processes were not done within {SECONDS} s"
        finally:
            _end(launcher)
        errors.seek(0)
        return _reason(errors.read(), code) if code else ""


def _end(launcher: "subprocess.Popen[bytes]") -> None:
    """Ask it to stop with its processes; should it not, they have an alarm of their own."""
    launcher.terminate()
    try:
        launcher.wait(5)
    except subprocess.TimeoutExpired:
        launcher.kill()


def _reason(said: str, code: int) -> str:
    """The first error in what torchrun and both processes wrote."""
    found = ERROR.search(said)
    return found[1][:300] if found else f"two processes ended with exit code {code}"


def _group(facts: dict[str, Any], said: str) -> Finding:
    if facts.get("met"):
        return good("process group", "two processes met, gathered and summed")
    found = "two processes met, but what they gathered and summed is wrong" if "met" in facts else said
    return bad("process group", found, f"{advice_on(found)}; {ALONE}")


def advice_on(said: str) -> str:
    """What to do about an error of processes that should meet."""
    fitting = (words for pattern, words in ADVICE.items() if re.search(pattern, said, re.IGNORECASE))
    return next(fitting, "several processes cannot be used here")


def _equal(facts: dict[str, Any], said: str) -> Finding:
    check = "two as one"
    if "loss" not in facts:
        return bad(check, f"not compared: {said if 'met' in facts else 'the processes did not meet'}", ALONE)
    worst = max(facts["loss"], facts["gradients"])
    found = f"two processes have the loss and gradients of one, {worst:.0e} apart"
    if facts["loss"] <= CLOSE and facts["gradients"] <= CLOSE:
        return good(check, found)
    found = f"loss {facts['loss']:.0e} and gradients {facts['gradients']:.0e} apart from those of one process"
    return bad(check, found, f"do not share a run among processes here; {ALONE}")
