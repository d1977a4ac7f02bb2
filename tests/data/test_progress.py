import io
from contextlib import suppress

import pytest
from rich.console import Console

from hardpair.data.progress import progress


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("hardpair.data.progress.time", made)
    return made


@pytest.mark.parametrize("terminal", [True, False])
def test_short_work_shows_nothing(clock: Clock, terminal: bool) -> None:
    out = io.StringIO()
    with progress("work", 10, console=Console(file=out, force_terminal=terminal)) as advance:
        for _ in range(10):
            clock.now += 0.1
            advance(1)
    assert out.getvalue() == ""


def test_lines_without_a_terminal_are_few_and_plain(clock: Clock) -> None:
    out = io.StringIO()
    with progress("work [red]", 100, console=Console(file=out, force_terminal=False)) as advance:
        for _ in range(100):
            clock.now += 1
            advance(1)
    lines = out.getvalue().splitlines()
    assert lines[0] == "work [red]: 2%"
    assert 6 <= len(lines) <= 8
    assert "\x1b" not in out.getvalue()


def test_bar_on_a_terminal(clock: Clock) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100)
    with progress("work", 10, console=console) as advance:
        clock.now += 3
        advance(5)
    assert "work" in out.getvalue()
    assert "50%" in out.getvalue()


def test_bar_stops_when_the_work_fails(clock: Clock) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100)
    with suppress(KeyError), progress("work", 10, console=console) as advance:
        clock.now += 3
        advance(5)
        raise KeyError
    assert out.getvalue().rstrip().endswith("\x1b[2K"), "the bar is wiped away"
