"""Ctrl-C and SIGTERM ask the run to stop after the step in hand; a second one stops it at once."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Which signal asked to stop, if any."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def receive(self, number: int, _frame: FrameType | None) -> None:
        """Only set a flag: anything more is unsafe inside a signal handler."""
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Catch SIGINT and SIGTERM for the length of the block."""
    request = StopRequest()
    old = {number: signal.signal(number, request.receive) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
