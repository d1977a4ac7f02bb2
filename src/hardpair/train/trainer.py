"""The pretraining loop. It knows the contract of a method and no method by name."""

import math
import platform
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from hardpair.data import Images, epoch_order
from hardpair.errors import UserError
from hardpair.files import commit
from hardpair.methods import METHODS, Method
from hardpair.models import Encoder, build_encoder, save_encoder, save_head_layer
from hardpair.recipes import SUPERVISED, Recipe
from hardpair.train.checkpoints import load_checkpoint, restore, save_checkpoint
from hardpair.train.gallery import write_pairs
from hardpair.train.health import complaints
from hardpair.train.labelled import Supervised
from hardpair.train.log import Log
from hardpair.train.meter import Meter
from hardpair.train.optimisers import build_optimiser, learning_rate, set_learning_rate
from hardpair.train.progress import Display
from hardpair.train.signals import StopRequest, stop_on_signals
from hardpair.views import Draw

LOG_EVERY = 10  # steps
TOO_EARLY = 30  # steps; before that mining has often not begun, and that is no reason to worry


@dataclass(frozen=True)
class Outcome:
    """How a run ended: finished, or ready to resume, paused where it was asked to be or stopped by a signal."""

    status: Literal["finished", "paused", "stopped"]
    step: int
    signal: int | None = None


def fresh_encoder(recipe: Recipe) -> Encoder:
    """The recipe's encoder, as random as torch is."""
    return build_encoder(recipe.encoder, width=recipe.width, sk=recipe.sk, small_images=recipe.small_images)


def build_method(recipe: Recipe, images: Images) -> Method:
    """The recipe's method on a fresh encoder, ready for these images; the seed alone decides the weights."""
    torch.manual_seed(recipe.seed)
    encoder = fresh_encoder(recipe)
    if recipe.method == SUPERVISED:
        return Supervised(encoder, images)
    method = METHODS[recipe.method](encoder, **recipe.settings)
    method.prepare(images.pixels)
    return method


class Trainer:
    """One run: a method, its optimiser, and the step they have reached."""

    def __init__(self, recipe: Recipe, run: Path, images: Images, device: torch.device, checkpoint_every: int) -> None:
        self.recipe, self.run, self.images, self.device = recipe, run, images, device
        self.checkpoint_every = checkpoint_every
        self.steps_per_epoch = len(images) // recipe.batch_size
        self.total = recipe.epochs * self.steps_per_epoch
        self.method = build_method(recipe, images).to(device).to(memory_format=torch.channels_last)
        self.optimiser = build_optimiser(self.method, recipe, self.method.constant_rate())
        self.trained = [p for p in self.method.parameters() if p.requires_grad]
        self.positions = torch.arange(recipe.batch_size, device=device)
        self.log = Log(run / "log.jsonl")
        self.step = self.first_step = 0
        self.troubles: set[str] = set()
        self.vital = torch.zeros(())

    def run_to_end(self) -> Outcome:
        """Train from the newest checkpoint, if any, until done or told to stop."""
        return self.run_until(self.total)

    def run_until(self, last: int) -> Outcome:
        """The same up to a step; the schedule is that of the whole run, which `run_to_end` can finish later."""
        if self.log.has("end"):
            print(f"{self.run} is finished already")
            return Outcome("finished", self.total)
        notes = self._restore()
        began = time.monotonic()
        with stop_on_signals() as request, Display(self.total, self.step) as display:
            for note in [*notes, self._describe()]:
                display.say(note)
            self._train(min(last, self.total), request, display)
            self._save()
            if self.step < self.total:
                seconds = round(time.monotonic() - began, 1)
                reason = "a pause" if request.signal is None else f"signal {request.signal}"
                self.log.write("stop", step=self.step, reason=reason, seconds=seconds)
                return Outcome("paused" if request.signal is None else "stopped", self.step, request.signal)
            display.say("finishing: the hardest pairs, where the method mines any")
            write_pairs(
                self.run / "pairs.json",
                self.method,
                self.images,
                batch_size=self.recipe.batch_size,
                seed=self.recipe.seed,
                device=self.device,
            )
        self.log.write("end", step=self.step, seconds=round(time.monotonic() - began, 1))
        return Outcome("finished", self.step)

    def _train(self, last: int, request: StopRequest, display: Display) -> None:
        meter = Meter()
        self.method.train()
        while self.step < last and request.signal is None:
            self._one_step(meter)
            display.step(self.step)
            if self.step % LOG_EVERY == 0 or self.step == last:
                values = self._log_figures(meter)
                display.figures(self.step, values)
                self._warn(values, display)
            if self.step % self.checkpoint_every == 0 and self.step < last:
                self._save()

    def _warn(self, values: dict[str, float], display: Display) -> None:
        """Say what is wrong when it begins to be; the first steps are too early to judge."""
        troubles = complaints(values) if self.step > TOO_EARLY else {}
        for kind in troubles.keys() - self.troubles:
            self.log.write("warning", step=self.step, text=troubles[kind])
            display.say(f"warning at step {self.step}: {troubles[kind]}")
        self.troubles = set(troubles)

    def _one_step(self, meter: Meter) -> None:
        waiting = time.perf_counter()
        rows = self._rows(self.step)
        images = self.images.batch(rows).to(self.device, non_blocking=True)
        waited = time.perf_counter() - waiting
        set_learning_rate(self.optimiser, learning_rate(self.recipe, self.step, self.steps_per_epoch))
        draw = Draw(self.recipe.seed, self.step, self.positions, rows=rows.to(self.device, non_blocking=True))
        views = self.method.views(images, draw)
        outputs = self.method(views)
        outputs["loss"].backward()
        outputs["gradient_norm"] = nn.utils.clip_grad_norm_(self.trained, self.recipe.clip or math.inf)
        self.vital = outputs["loss"].detach() + outputs["gradient_norm"]  # finite only if both are
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.step += 1
        self.method.after_step(self.step / self.total)
        meter.add(outputs, images=len(images), waited=waited)

    def _rows(self, step: int) -> Tensor:
        """Which images a step sees: a slice of an order that (seed, epoch) alone decide."""
        epoch, index = divmod(step, self.steps_per_epoch)
        if index == 0 or step == self.first_step:
            self.order = epoch_order(len(self.images), seed=self.recipe.seed, epoch=epoch)
        return self.order[index * self.recipe.batch_size :][: self.recipe.batch_size]

    def _log_figures(self, meter: Meter) -> dict[str, float]:
        values = meter.read()
        values["epoch"] = round(self.step / self.steps_per_epoch, 3)
        values["learning_rate"] = self.optimiser.param_groups[0]["lr"]
        self._require_finite(self.vital)
        self.log.write("step", step=self.step, **values)
        return values

    def _restore(self) -> list[str]:
        checkpoint, notes = load_checkpoint(self.run / "checkpoints")
        if checkpoint is not None:
            restore(checkpoint, self.method, self.optimiser)
            self.step = checkpoint.step
            notes.append(f"resuming {self.run} at step {self.step} of {self.total}")
        self.first_step = self.step
        self.log.rewind(self.step)
        for note in notes:
            self.log.write("resume", step=self.step, text=note)
        self._log_start()
        return notes

    def _require_finite(self, *tensors: Tensor) -> None:
        """Never log or save what a loss or a gradient that is not a number has spoilt."""
        if not all(bool(tensor.isfinite().all()) for tensor in tensors):
            raise UserError(
                f"loss, gradient or weights are not finite at step {self.step}; the last checkpoint is from before; "
                "a lower learning_rate may help"
            )

    def _save(self) -> None:
        self._require_finite(self.vital, *self.method.state_dict().values())
        save_checkpoint(self.run / "checkpoints", self.step, self.method, self.optimiser)
        save_encoder(self.method.encoder, self.run, step=self.step)
        if (layer := self.method.head_layer()) is not None:
            save_head_layer(layer, self.run)

    def _log_start(self) -> None:
        self.log.write(
            "start",
            step=self.step,
            time=datetime.now(UTC).isoformat(timespec="seconds"),
            data=self.images.name,
            images=len(self.images),
            parameters=sum(p.numel() for p in self.method.encoder.parameters()),
            device=str(self.device),
            threads=torch.get_num_threads(),
            commit=commit(),
            versions={"torch": str(torch.__version__), "python": platform.python_version()},
            skipped=list(self.images.skipped),
        )

    def _describe(self) -> str:
        recipe, images = self.recipe, self.images
        parameters = sum(p.numel() for p in self.method.encoder.parameters()) / 1e6
        skipped = f"; {len(images.skipped)} files could not be used (log.jsonl lists them)" if images.skipped else ""
        return (
            f"{recipe.method} on {len(images):,} images of {images.name} at {images.size} px{skipped}; "
            f"{recipe.encoder}, width {recipe.width:g}, {parameters:.1f} M parameters; "
            f"{recipe.epochs} epochs of {self.steps_per_epoch} steps on {self.device}"
        )
