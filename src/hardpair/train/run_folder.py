"""The folder of a run: its log, one writer at a time, and stopping on a signal."""

import fcntl
import json
import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from hardpair import distributed
from hardpair.errors import UserError
from hardpair.files import append_json, parse_json, write_atomically
from hardpair.train.callbacks import Callback, Listeners


class Log:
    """``log.jsonl``: one JSON object per line, flushed at once. Rank 0 writes it, and tells the callbacks."""

    def __init__(self, path: Path, callbacks: Sequence[Callback] = ()) -> None:
        self.path, self.listeners = path, Listeners(callbacks)

    def write(self, event: str, **values: Any) -> None:
        """Append an event."""
        if distributed.is_main():
            append_json(self.path, {"event": event, **values})
            self.tell(event, values)

    @property
    def heard(self) -> bool:
        """Whether this rank has anybody to tell."""
        return distributed.is_main() and bool(self.listeners.callbacks)

    def tell(self, event: str, values: Mapping[str, Any]) -> None:
        """Tell the callbacks without writing; one that fails costs a warning, not the run."""
        for complaint in self.listeners.tell(event, values):
            text = f"{complaint}; training goes on, and {self.path.name} has every event"
            print(f"warning: {text}")
            self.write("warning", step=values["step"], text=text)

    def last(self, event: str) -> dict[str, Any] | None:
        """What was logged with the latest such event."""
        found = [line for _, line in self._lines() if line.get("event") == event]
        return found[-1] if found else None

    def rewind(self, step: int) -> None:
        """Forget what came after ``step``: a resumed run will write it again. A half-written last line goes too.

        The end of a run that is now lengthened becomes a stop.
        """
        if not distributed.is_main():
            return
        kept = []
        for text, line in self._lines():
            if line.get("step", 0) <= step:
                ended = line.get("event") == "end"
                kept.append(json.dumps({**line, "event": "stop", "reason": "lengthened"}) if ended else text)
        write_atomically(self.path, "".join(f"{text}\n" for text in kept).encode())

    def _lines(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Every line that can be read, as it is and as what it says."""
        for text in self.path.read_text(errors="replace").splitlines() if self.path.exists() else []:
            try:
                line = parse_json(text)
            except ValueError:
                continue
            if isinstance(line, dict) and isinstance(line.get("step", 0), int | float):
                yield text, line


@contextmanager
def sole_writer(run: Path) -> Iterator[None]:
    """Lock the folder for the length of the block, or say who holds it; the lock dies with its process.

    Rank 0 holds it for all ranks.
    """
    if not distributed.is_main():
        yield
        return
    with (run / "lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise UserError(
                f"{run}: is being trained by another process ({holder}); wait for it, or choose another --run"
            ) from error
        file.truncate(0)
        file.write(f"process {os.getpid()} on {os.uname().nodename}\n")
        file.flush()
        yield
        file.truncate(0)


class StopRequest:
    """Which signal asked to stop, if any."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def receive(self, number: int, _frame: FrameType | None) -> None:
        """Set a flag, and say so by a plain write: anything more is unsafe inside a signal handler."""
        if self.signal is None:
            self.signal = number
            if distributed.is_main():
                os.write(2, b"\nstopping after this step; Ctrl-C once more stops at once\n")
        elif number == signal.SIGINT:
            raise KeyboardInterrupt


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Ctrl-C and SIGTERM ask the run to stop after the current step; a Ctrl-C after that stops it at once.

    A second SIGTERM does not: a scheduler sends it to all processes, and torchrun, which gets it too, forwards it. In
    a thread, which gets no signals, this does nothing.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    old = {number: signal.signal(number, request.receive) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
