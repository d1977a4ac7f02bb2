"""The pretraining loop. It knows the contract of a method and no method by name."""

import contextlib
import platform
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import torch

from hardpair import distributed
from hardpair.data import Images
from hardpair.errors import UserError, no_memory
from hardpair.files import commit
from hardpair.models import save_encoder, save_head_layer
from hardpair.recipes import Recipe
from hardpair.text import several, sides
from hardpair.train.checkpoints import load_checkpoint, remove_leftovers, restore, save_checkpoint
from hardpair.train.compiled import compile_if_wanted
from hardpair.train.gallery import mines, write_pairs
from hardpair.train.monitor import Display, Meter, complaints
from hardpair.train.neighbours import show_neighbours
from hardpair.train.run_folder import Log, StopRequest, stop_on_signals
from hardpair.train.step import Done, Stepper, recipe_draw
from hardpair.views import compile_kernels

LOG_EVERY = 10  # steps
TOO_EARLY = 30  # steps; before that mining has often not begun, and that is no reason to worry
MOST_SKIPPED = 5  # steps in a row; one bad batch is bad luck, five are a fault


@dataclass(frozen=True)
class Outcome:
    """How a run ended: finished, or ready to resume, paused where it was asked to be or stopped by a signal."""

    status: Literal["finished", "paused", "stopped"]
    step: int
    signal: int | None = None
    labelled: bool = field(default=True, compare=False)  # whether the images have labels to evaluate with


class Trainer:
    """One run: a method, its optimiser, and the step they have reached."""

    def __init__(
        self,
        recipe: Recipe,
        run: Path,
        images: Images,
        device: torch.device,
        checkpoint_every: int,
        *,
        shard: bool = False,
        compiled: bool = False,
        opened: Mapping[str, Any] | None = None,
    ) -> None:
        self.recipe, self.folder, self.images, self.device = recipe, run, images, device
        self.checkpoint_every, self.compiled = checkpoint_every, compiled
        self.opened = opened or {}  # how the images were opened, for those who repeat the run
        self.stepper = Stepper(recipe, images, device, shard=shard)
        self.method, self.optimiser = self.stepper.method, self.stepper.optimiser
        self.total = self.stepper.total
        self.log, self.meter = Log(run / "log.jsonl"), Meter()
        self.step = 0
        self.skipped = 0  # steps in a row
        self.troubles: set[str] = set()
        self.notes: list[str] | None = None  # what to print before training; None until `restore`

    def run(self, until: int | None = None) -> Outcome:
        """Train from the newest checkpoint, if any, to the end or to a step, unless told to stop.

        The schedules are those of the whole run, which can be finished later.
        """
        if self._finished():
            if distributed.is_main():
                print(f"{self.folder} is finished already")
            return Outcome("finished", self.total)
        notes = self.restore()
        began, last = time.monotonic(), self.total if until is None else min(until, self.total)
        if self.step < last and (note := compile_if_wanted(self.stepper, self.log, self.step, wanted=self.compiled)):
            notes.append(note)
        with stop_on_signals() as request, Display(self.total, self.step) as display:
            for note in [*notes, self._describe()]:
                display.say(note)
            stopped = self._train(last, request, display)
            self._save()
            if self.step < self.total:
                seconds = round(time.monotonic() - began, 1)
                number = request.signal or signal.SIGTERM  # it may have come to another rank
                self.log.write(
                    "stop", step=self.step, reason=f"signal {number:d}" if stopped else "a pause", seconds=seconds
                )
                return self._outcome("stopped", number) if stopped else self._outcome("paused")
            if mines(self.method):
                display.say("finishing: looking for the hardest pairs")
                self._show_pairs(display)
            if self.images.labels is None:  # with labels, evaluation shows them
                display.say("finishing: looking for nearest neighbours")
                self._show_neighbours(display)
        self.log.write("end", step=self.step, seconds=round(time.monotonic() - began, 1))
        return self._outcome("finished")

    def _outcome(self, status: Literal["finished", "paused", "stopped"], number: int | None = None) -> Outcome:
        return Outcome(status, self.step, number, labelled=self.images.labels is not None)

    def _train(self, last: int, request: StopRequest, display: Display) -> bool:
        """Step by step to the last, or until some rank is asked to stop; returns whether it was."""
        self.method.train()
        if self.device.type == "cpu":
            compile_kernels(display.say)  # here, since that is no part of a step
        self.meter.restart_clock()
        first, stop = self.step + 1, False
        while self.step < last and not stop:
            done = self.stepper.take(self.step, lambda: request.signal is not None)
            stop = done.stop
            self.step += 1
            if done.sound:
                self.skipped = 0
                self.meter.add(done.outputs, images=self.recipe.batch_size, waited=done.waited)
            else:
                self._skip(done, display)
            display.step(self.step)
            if self.step == first and self.step % LOG_EVERY and self.step < last:
                display.first(self.step, done.outputs["loss"].item())
            if self.meter.features is not None and (self.step % LOG_EVERY == 0 or self.step == last):
                values = self._log_figures()
                display.figures(self.step, values)
                self._warn(values, display)
            if self.step == first:  # slower than the others, so no part of the pace
                self.meter.restart_clock()
            if self.step % self.checkpoint_every == 0 and self.step < last:
                self._save()
        return stop

    def _show_pairs(self, display: Display) -> None:
        """Pairs are for people to look at: the run is whole without them."""
        draw = recipe_draw(self.recipe, 0, self.stepper.positions)
        with (
            self._memory_permitting("pairs.json", display),
            torch.compiler.set_stance("force_eager"),  # so few batches are not worth compiling anything for
        ):
            write_pairs(self.folder / "pairs.json", self.method, self.images, draw)

    def _show_neighbours(self, display: Display) -> None:
        with self._memory_permitting("neighbours.json", display):
            show_neighbours(self.folder, self.images, self.method.encoder, seed=self.recipe.seed, device=self.device)

    @contextlib.contextmanager
    def _memory_permitting(self, file: str, display: Display) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if not no_memory(error):
                raise
            text = f"there was not enough memory to make {file}; all else is whole"
            self.log.write("warning", step=self.step, text=text)
            display.say(f"warning: {text}")

    def _skip(self, done: Done, display: Display) -> None:
        """Write down a step that changed nothing, since its loss or gradient was not a finite number."""
        self.skipped += 1
        rows = distributed.gather(done.rows.to(self.device)).tolist()
        self.log.write("skipped", step=self.step, rows=rows)
        display.say(f"warning at step {self.step}: loss or gradient is not finite; the step was skipped")
        if self.skipped == MOST_SKIPPED:
            raise UserError(
                f"loss or gradient were not finite in {MOST_SKIPPED} steps in a row, up to step {self.step}; the "
                f"weights are those of before, and {self.log.path} lists the images; a lower learning_rate may help"
            )

    def _warn(self, values: dict[str, float], display: Display) -> None:
        """Say what is wrong when it begins to be; the first steps are too early to tell."""
        troubles = complaints(values) if self.step > TOO_EARLY else {}
        for kind in troubles.keys() - self.troubles:
            self.log.write("warning", step=self.step, text=troubles[kind])
            display.say(f"warning at step {self.step}: {troubles[kind]}")
        self.troubles = set(troubles)

    def _log_figures(self) -> dict[str, float]:
        values = self.meter.read()
        values["epoch"] = round(self.step / self.stepper.steps_per_epoch, 3)
        values["learning_rate"] = self.optimiser.param_groups[0]["lr"]
        self.log.write("step", step=self.step, **values)
        return values

    def _finished(self) -> bool:
        """Whether the run has ended; a lengthened one has not."""
        end = self.log.last("end")
        finished = end is not None and end.get("step", self.total) >= self.total
        distributed.require_equal(f"the end of {self.folder}", finished, device=self.device)
        return finished

    def lengthen(self, before: int) -> list[dict[str, int]]:
        """Go on with more epochs than the ``before`` that the run had; returns the record of it for recipe.json.

        A run without a checkpoint simply begins anew.
        """
        notes = self.restore()
        if self.step == 0:
            return []
        epochs, share = self.recipe.epochs, self.step / self.total
        text = f"lengthened from {before} to {epochs} epochs: schedules go on at {share:.0%} of the longer run"
        self.log.write("resume", step=self.step, text=text)
        notes.append(text)
        return [{"from_epochs": before, "to_epochs": epochs, "at_step": self.step}]

    def restore(self) -> list[str]:
        """Take up the newest checkpoint, if any; returns what to print about it. A second call does nothing."""
        if self.notes is None:
            self.notes = self._restore()
        return self.notes

    def _restore(self) -> list[str]:
        remove_leftovers(self.folder / "checkpoints")
        with distributed.main_first():  # rank 0 puts unreadable checkpoints aside
            checkpoint, notes = load_checkpoint(self.folder / "checkpoints")
        found = checkpoint and (checkpoint.step, checkpoint.sha256)
        distributed.require_equal(f"the newest checkpoint of {self.folder}", found, device=self.device)
        if checkpoint is not None:
            restore(checkpoint, self.method, self.optimiser)
            self.meter.restore(checkpoint.part("meter"))
            self.step = checkpoint.step
            notes.append(f"resuming {self.folder} at step {self.step} of {self.total}")
        self.log.rewind(self.step)
        for note in notes:
            self.log.write("resume", step=self.step, text=note)
        self._log_start()
        return notes

    def _save(self) -> None:
        """Rank 0 saves for all ranks, which hold the same; sharded, each rank gives its part."""
        meter = {name: distributed.mean(value.float()) for name, value in self.meter.state().items()}
        if not (distributed.is_main() or self.stepper.sharded):
            return
        save_checkpoint(self.folder / "checkpoints", self.step, self.method, self.optimiser, meter)
        save_encoder(self.method.encoder, self.folder, step=self.step)
        if (layer := self.method.head_layer()) is not None:
            save_head_layer(layer, self.folder)

    def _log_start(self) -> None:
        self.log.write(
            "start",
            step=self.step,
            time=datetime.now(UTC).isoformat(timespec="seconds"),
            data=self.images.name,
            **self.opened,
            images=len(self.images),
            classes=len(self.images.classes),
            parameters=sum(p.numel() for p in self.method.encoder.parameters()),
            device=str(self.device),
            processes=distributed.world_size(),
            threads=torch.get_num_threads(),
            commit=commit(),
            versions={"torch": str(torch.__version__), "python": platform.python_version()},
            skipped=list(self.images.skipped),
        )

    def _describe(self) -> str:
        recipe, images = self.recipe, self.images
        parameters = sum(p.numel() for p in self.method.encoder.parameters()) / 1e6
        files = several(len(images.skipped), "file")
        skipped = f"; {files} could not be used (log.jsonl lists them)" if images.skipped else ""
        size = sides(images.size, recipe.view_pixels)
        parts = f", {recipe.micro_batch} at a time" if 0 < recipe.micro_batch < recipe.batch_size else ""
        left_over = len(images) % recipe.batch_size
        if left_over:
            skipped += f"; the last {several(left_over, 'image')} of each shuffled epoch are not used"
            skipped += " (a smaller --batch-size uses more)" if left_over > len(images) / 10 else ""
        return (
            f"{recipe.method} on {len(images):,} images of {images.name} at {size}{skipped}; "
            f"{recipe.encoder}, width {recipe.width:g}, {parameters:.1f} M parameters; "
            f"{several(recipe.epochs, 'epoch')} of {several(self.stepper.steps_per_epoch, 'step')}, "
            f"{recipe.batch_size} images per step{parts}, on {self._place()}"
        )

    def _place(self) -> str:
        ranks = distributed.world_size()
        return f"{ranks} processes ({self.device.type})" if ranks > 1 else str(self.device)
