"""How far a long piece of work is: a bar on a terminal, a line now and then elsewhere, nothing for short work."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from hardpair.text import duration

QUIET_SECONDS = 2.0  # work shorter than this shows nothing
LINE_SECONDS = 15.0  # without a terminal, one line in so many seconds
_WHOSE: ContextVar[str] = ContextVar("whose", default="")


@contextmanager
def progress_of(whose: str) -> Iterator[None]:
    """Put this before every label in the block, where the same work is done for one thing and then for another."""
    before = _WHOSE.set(f"{whose}: ")
    try:
        yield
    finally:
        _WHOSE.reset(before)


@contextmanager
def progress(label: str, total: int, *, console: Console | None = None) -> Iterator[Callable[[int], None]]:
    """Yield `advance(n)`, to be called as the work goes on."""
    console = console or Console(stderr=True)
    label = _WHOSE.get() + label
    show = _bar(label, total, console) if console.is_terminal else _lines(label, total, console)
    with show as update:
        done, start = 0, time.monotonic()

        def advance(amount: int) -> None:
            nonlocal done
            done += amount
            if time.monotonic() - start >= QUIET_SECONDS:
                update(done)

        yield advance


@contextmanager
def _bar(label: str, total: int, console: Console) -> Iterator[Callable[[int], None]]:
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task(label, total=total)

    def update(done: int) -> None:
        bar.start()  # does nothing the second time
        bar.update(task, completed=done)

    try:
        yield update
    finally:
        bar.stop()


@contextmanager
def _lines(label: str, total: int, console: Console) -> Iterator[Callable[[int], None]]:
    start, last = time.monotonic(), float("-inf")

    def update(done: int) -> None:
        nonlocal last
        if (now := time.monotonic()) - last >= LINE_SECONDS:
            last = now
            left = duration((now - start) * max(total / max(done, 1) - 1, 0))
            text = f"{label}: {done / max(total, 1):.0%}  left {left}"
            console.print(text, markup=False, highlight=False, soft_wrap=True)

    yield update
