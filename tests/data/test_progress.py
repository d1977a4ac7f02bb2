import io
from contextlib import suppress

import pytest
from rich.console import Console

from hardpair.data.progress import progress, progress_of


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
    assert lines[0] == "work [red]: 2%  left 1 min 38 s"
    assert lines[1] == "work [red]: 17%  left 1 min 23 s"
    assert 6 <= len(lines) <= 8
    assert "\x1b" not in out.getvalue()


def test_work_that_is_longer_than_was_said_has_no_time_left(clock: Clock) -> None:
    out = io.StringIO()
    for total in (0, 1):
        with progress("work", total, console=Console(file=out, force_terminal=False)) as advance:
            clock.now += 3
            advance(2)
    assert [line.split("left")[1] for line in out.getvalue().splitlines()] == [" 0 s", " 0 s"]


@pytest.mark.parametrize("terminal", [True, False])
def test_labels_say_whose_work_it_is(clock: Clock, terminal: bool) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100)

    def work() -> None:
        with progress("work", 10, console=console) as advance:
            clock.now += 3
            advance(5)

    with suppress(KeyError), progress_of("other"):
        work()
        raise KeyError
    assert "other: work" in out.getvalue()
    out.truncate(0)
    work()
    assert "work" in out.getvalue()
    assert "other" not in out.getvalue()


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
