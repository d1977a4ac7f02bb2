"""Processes that are measured by turns: all are there from the beginning, and one at a time works."""

import subprocess
import sys
from collections.abc import Callable


class Side:
    """A process that takes a turn whenever it is asked to, and says what came of it in a line."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def turn(self) -> str:
        """What it says after its turn."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        if not (line := self.process.stdout.readline()):
            raise SystemExit(f"{self.process.args!r} has ended before its turn")
        return line

    def end(self) -> None:
        """No more turns."""
        self.process.communicate()


def take_turns(turn: Callable[[], str]) -> None:
    """Be such a process, until there are no more turns."""
    for _ in sys.stdin:
        print(turn(), flush=True)
