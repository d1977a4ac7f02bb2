"""Whether a run that was interrupted ends here, on the CPU, with the same bits as one that was not."""

import contextlib
import io
import tempfile
from collections.abc import Iterator
from pathlib import Path

from hardpair.doctor.finding import Finding, bad, good
from hardpair.doctor.options import Doctor
from hardpair.doctor.tiny import STEPS, TINY
from hardpair.train import pretrain

PAUSE = 9  # steps; not where anything else happens


def check_resume(_options: Doctor) -> Iterator[Finding]:
    """Twenty steps at once, and the same in two parts."""
    with tempfile.TemporaryDirectory(prefix="hardpair-doctor-") as folder:
        whole, parts = Path(folder, "whole"), Path(folder, "parts")
        _train(whole)
        _train(parts, until=PAUSE)
        _train(parts, resume=True)
        different = [name for name, content in _end(whole).items() if _end(parts)[name] != content]
    found = f"a run of {STEPS} steps, interrupted after {PAUSE} and resumed,"
    if not different:
        yield good("resume", f"{found} ends with the same bytes as one in a piece")
        return
    advice = "runs can be resumed here, but not bit for bit; another version of torch may be"
    yield bad("resume", f"{found} ends otherwise than one in a piece, in {' and '.join(different)}", advice)


def _train(run: Path, *, until: int | None = None, resume: bool = False) -> None:
    """A tiny run, in silence."""
    with contextlib.redirect_stdout(io.StringIO()):
        outcome = pretrain(TINY, run, until=until, resume=resume, device="cpu")  # the last bits of a GPU may vary
    if outcome.status == "stopped":  # Ctrl-C asks the run to save and stop; here it means the doctor
        raise KeyboardInterrupt


def _end(run: Path) -> dict[str, bytes]:
    """Encoder, and everything else that the last checkpoint holds."""
    state = run / "checkpoints" / f"{STEPS:09d}" / "state.safetensors"
    return {"encoder": (run / "encoder.safetensors").read_bytes(), "checkpoint": state.read_bytes()}
