"""How a run is going: averages between log lines, signs of collapse, and what a person sees of them."""

import time
from collections.abc import Iterable, Mapping
from types import TracebackType

import torch
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text
from torch import Tensor

from hardpair import distributed
from hardpair.text import duration

ROWS = 512  # of features, to tell a collapse; cheap at any batch size
PLAIN_SECONDS = 10.0  # between plain lines
MEASURED_SECONDS = 3.0  # before that an estimate of the time left would mean nothing


@torch.no_grad()
def spread(features: Tensor) -> Tensor:
    """How far directions differ: 0 where all features point one way, about 1 where they point everywhere."""
    unit = torch.nn.functional.normalize(features[:ROWS].float(), dim=1)
    return unit.std(dim=0, correction=0).mul(features.shape[1] ** 0.5).mean()


@torch.no_grad()
def effective_rank(features: Tensor) -> Tensor:
    """exp(entropy of the singular values) of the centred features: the number of directions really used."""
    centred = features[:ROWS].double()
    centred = centred - centred.mean(0)
    if not bool(centred.isfinite().all()):
        return centred.new_full((), torch.nan)
    gram = centred.T @ centred if centred.shape[1] < len(centred) else centred @ centred.T
    try:  # on a GPU it may not converge, and a figure for the log is no reason to end a run
        values = torch.linalg.eigvalsh(gram).clamp_min(0).sqrt()
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]  # torch has it, but its types leave it out
        return centred.new_full((), torch.nan)
    shares = values / values.sum().clamp_min(torch.finfo(values.dtype).tiny)
    return torch.exp(torch.special.entr(shares).sum())


def complaints(scalars: Mapping[str, float]) -> dict[str, str]:
    """What a person should know about these averaged log values: kind of trouble → words."""
    words = {}
    if scalars["rank"] < 2 or scalars["spread"] < 0.1:  # healthy runs: 15 to 90, and .3 to .8
        words["collapse"] = (
            f"features have collapsed: effective rank {scalars['rank']:.1f}, spread {scalars['spread']:.3f}; all "
            "images look alike to the encoder (a lower learning rate or stronger negatives may help)"
        )
    if scalars.get("mined") == 0:
        words["mining"] = "nothing is mined: no two images are nearer than the threshold, so nothing pushes them apart"
    return words


class Meter:
    """Adds up what steps report; `read` gives averages and starts anew."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self.sums: dict[str, Tensor] = {}
        self.features: Tensor | None = None
        self.steps = 0
        self.restart_clock()

    def restart_clock(self) -> None:
        """Measure images per second and data wait from here on; other averages are kept."""
        self.images, self.waited, self.began = 0, 0.0, time.perf_counter()

    def add(self, outputs: Mapping[str, Tensor], *, images: int, waited: float) -> None:
        """Take in one step's outputs: scalars are averaged, features are kept for the health figures."""
        for name, value in outputs.items():
            if value.ndim == 0:
                self.sums[name] = self.sums.get(name, torch.zeros_like(value)) + value.detach()
        self.features = outputs["features"]
        self.steps, self.images, self.waited = self.steps + 1, self.images + images, self.waited + waited

    def state(self) -> dict[str, Tensor]:
        """What was added up so far, for a checkpoint: a run that goes on from there logs the same averages."""
        return {**self.sums, "steps": torch.tensor(self.steps)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from there."""
        self.sums = {name: value.clone() for name, value in state.items() if name != "steps"}
        self.steps = int(state.get("steps", 0))

    def read(self) -> dict[str, float]:
        """Averages since the last reading."""
        assert self.features is not None
        averages = {name: total.float() / self.steps for name, total in self.sums.items()}
        features = distributed.gather(self.features)
        averages |= {"spread": spread(features), "rank": effective_rank(features).float()}
        # One wait for the device, for all figures together.
        values = dict(zip(averages, distributed.mean(torch.stack(list(averages.values()))).tolist(), strict=True))
        seconds = time.perf_counter() - self.began
        values |= {"images_per_second": self.images / seconds, "data_wait": self.waited / seconds}
        self._reset()
        return values


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
