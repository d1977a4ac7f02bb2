"""What a person sees while a run goes on: a bar on a terminal, plain lines elsewhere."""

import time
from collections.abc import Iterable, Mapping
from types import TracebackType

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from hardpair import distributed
from hardpair.words import duration

PLAIN_SECONDS = 10.0  # between plain lines
MEASURED_SECONDS = 3.0  # before that an estimate of the time left would mean nothing


class Bar(Progress):
    """A bar with the figures on a line of their own, so that both fit a narrow terminal."""

    figures = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        """The bar, and below it what was logged last."""
        yield from super().get_renderables()
        yield Text(self.figures)


class Display:
    """Shows the run's figures; as a context manager it owns the terminal's last line."""

    def __init__(self, total: int, start: int = 0, console: Console | None = None) -> None:
        self.console = console or Console(soft_wrap=True, quiet=not distributed.is_main())
        self.total, self.last_line = total, 0.0
        self.warm: tuple[int, float] | None = None  # the first step done, and when: it is slower than those after it
        self.bar = Bar(
            TextColumn("step"),
            MofNCompleteColumn(),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.task = self.bar.add_task("", total=total, completed=start, left="")

    def __enter__(self) -> "Display":
        self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.bar.stop()

    def say(self, text: str) -> None:
        """A line that stays."""
        self.console.print(text, markup=False, highlight=False)

    def step(self, step: int) -> None:
        """A step was done."""
        self.warm = self.warm or (step, time.monotonic())
        self.bar.update(self.task, completed=step, left=self._left(step))

    def first(self, step: int, loss: float) -> None:
        """The first step was done: without a bar, that is the first sign of life."""
        if not self.console.is_terminal:
            self.say(f"step {step}/{self.total}  loss {loss:.3f}")

    def figures(self, step: int, values: Mapping[str, float]) -> None:
        """New averages were logged."""
        text = describe(values)
        self.bar.figures = text
        due = time.monotonic() - self.last_line >= PLAIN_SECONDS or step == self.total
        if not self.console.is_terminal and due:
            self.last_line = time.monotonic()
            self.say(f"step {step}/{self.total}  {text}  {self._left(step)}".rstrip())

    def _left(self, step: int) -> str:
        """The time left at the pace since the first step; nothing while that is unknown."""
        warm_step, since = self.warm or (step, time.monotonic())
        measured = time.monotonic() - since
        if measured < MEASURED_SECONDS or step in (warm_step, self.total):
            return ""
        return f"left {duration(measured / (step - warm_step) * (self.total - step))}"


def describe(values: Mapping[str, float]) -> str:
    """The figures worth watching, in a fixed order."""
    parts = [
        f"epoch {values['epoch']:.1f}",
        f"loss {values['loss']:.3f}",
        f"{values['images_per_second']:.0f} images/s",
    ]
    parts.append(f"data wait {values['data_wait']:.0%}")
    if "mined" in values:
        parts.append(f"mined {values['mined']:.1%}")
    return "  ".join([*parts, f"spread {values['spread']:.2f}", f"rank {values['rank']:.0f}"])
