"""Ctrl-C and SIGTERM ask the run to stop after the step in hand; a Ctrl-C after that stops it at once.

A second SIGTERM does not: a scheduler sends it to all processes, and torchrun, which gets it too, hands it on.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from hardpair import distributed


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
    """Catch SIGINT and SIGTERM for the length of the block; in a thread, which gets none, do nothing."""
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
