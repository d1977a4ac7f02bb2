"""Transfer: the encoder on seven other data sets, by logistic regression on its features or by fine-tuning."""

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import torch

from hardpair.data import Images
from hardpair.data.transfer import TRANSFER_SETS, TransferSplit, open_transfer
from hardpair.errors import UserError, nearest
from hardpair.evaluate.context import Context, Measurement, Task
from hardpair.evaluate.finetune import FineTuner
from hardpair.evaluate.linear import first_best
from hardpair.evaluate.logistic import predict, regression_path
from hardpair.evaluate.metrics import METRICS
from hardpair.models import Encoder
from hardpair.protocol_settings import Settings, Transferred
from hardpair.recipes.tuning import Tuning

PENALTIES = tuple(10.0 ** (5 - 11 * place / 44) for place in range(45))  # 1e5 … 1e-6, from strong to weak


@dataclass(frozen=True)
class TuningGrid:
    """Learning rates and weight decays to choose from, and how long each pair is trained."""

    rates: tuple[float, ...]
    weight_decays: tuple[float, ...]  # each is divided by the learning rate it goes with
    steps: int
    batch_size: int

    def candidates(self, images: int) -> list[Tuning]:
        """One training for each pair."""
        batch = min(self.batch_size, images)
        pairs = itertools.product(self.rates, self.weight_decays)
        return [Tuning("sgd", rate, batch, self.steps, weight_decay=decay / rate) for rate, decay in pairs]


GRIDS = {
    "published": TuningGrid(
        tuple(10 ** (-4 + place / 2) for place in range(7)),
        (0.0, *(10 ** (-6 + place / 2) for place in range(7))),
        steps=20_000,
        batch_size=256,
    ),
    "short": TuningGrid((0.01, 0.1), (0.0, 1e-4), steps=500, batch_size=64),
}


def grid_of(transferred: Transferred) -> TuningGrid:
    """The grid that is asked for, with its number of steps."""
    grid = GRIDS[transferred.grid]
    return grid if transferred.steps is None else replace(grid, steps=transferred.steps)


def transfer_tasks(context: Context, settings: Settings) -> Iterator[Task]:
    """One task for each set that is on disk; a line for each that is missing."""
    transferred, grid = settings.transferred, grid_of(settings.transferred)
    for name in transferred.sets or TRANSFER_SETS:
        if name not in TRANSFER_SETS:
            raise UserError(f"sets: there is no {name!r}{nearest(name, TRANSFER_SETS)}")
        try:
            splits = TransferData(name, context, transferred)
        except UserError as error:  # missing or damaged
            context.missing_sets.add(name)
            context.say(f"{name}: {error}")
            continue
        used: dict[str, Any] = {"set": name, "form": splits.form, "metric": splits.metric}
        if splits.form == "linear":
            used |= {"strengths": PENALTIES}
            measure = functools.partial(measure_linear, data=splits)
        else:
            used |= asdict(grid)
            measure = functools.partial(measure_finetuned, data=splits, grid=grid)
        yield Task("transfer", used, splits.used(), measure)


class TransferData:
    """The splits of one set. For ``on="validation"`` scores are those of that split, and no test image is opened."""

    def __init__(self, name: str, context: Context, transferred: Transferred) -> None:
        self.name, self.context, self.download = name, context, transferred.download
        self.form: Literal["linear", "finetune"] = "finetune" if transferred.finetune else "linear"
        self.metric = TRANSFER_SETS[name].metric
        self.train = self._open_to_train("train")
        self.validation = self._open_for_scoring("validation")
        self.test = self._open_for_scoring("test") if context.on == "test" else None
        numbers = ", ".join(f"{len(images):,} {split}" for split, images in self.used().items())
        context.say(f"{TRANSFER_SETS[name].title}: {numbers} images")

    def used(self) -> dict[str, Images]:
        """The images of a score."""
        if self.test is None:
            return {"train": self.train, "test": self.validation}
        return {"train": self.train, "validation": self.validation, "test": self.test}

    def train_and_validation(self) -> Images:
        """To train on once hyperparameters are chosen; mapped from the cache like each of them."""
        return self._open_to_train("train+validation")

    def _open_to_train(self, split: TransferSplit) -> Images:
        """Features are of the whole squares; crops are cut from squares as large as those of pretraining."""
        if self.form == "linear":
            return self._open(split)
        return self._open(split, self.context.stored).shown_at(self.context.size)

    def _open_for_scoring(self, split: Literal["validation", "test"]) -> Images:
        """Fine-tuned networks see the centre of larger images."""
        if self.form == "linear":
            return self._open(split)
        return self.context.centre(functools.partial(self._open, split))

    def _open(self, split: TransferSplit, size: int | None = None) -> Images:
        size = size or self.context.size
        return open_transfer(self.name, split, size=size, root=self.context.root, download=self.download)


def measure_linear(encoder: Encoder, data: TransferData) -> Measurement:
    """Logistic regression on features, the penalty chosen on validation, fitted again on training and validation."""
    context, metric = data.context, METRICS[data.metric]
    train, validation = (context.features(encoder, images) for images in (data.train, data.validation))
    classes = len(data.train.classes)
    weights = regression_path(*train, PENALTIES, classes=classes)
    scores = [metric(predict(validation[0], weight), validation[1]) for weight in weights]
    best = first_best(scores)
    chosen = {"strength": PENALTIES[best], "validation": scores[best]}
    if data.test is None:
        return Measurement({data.metric: scores[best]}, chosen)
    both = (torch.cat([train[0], validation[0]]), torch.cat([train[1], validation[1]]))
    weight = regression_path(*both, PENALTIES[: best + 1], classes=classes)[-1]
    features, labels = context.features(encoder, data.test)
    return Measurement({data.metric: metric(predict(features, weight), labels)}, chosen)


def measure_finetuned(encoder: Encoder, data: TransferData, grid: TuningGrid) -> Measurement:
    """Fine-tuning, learning rate and weight decay chosen on validation, trained again on training and validation."""
    context = data.context
    tuner = FineTuner(
        encoder, context.seed, context.device, norm_follows_epoch=True, partial_results=context.partial_results
    )
    label = f"fine-tuning on {data.train.name}"
    candidates = grid.candidates(len(data.train))
    best, score = tuner.choose(candidates, data.train, data.validation, metric=data.metric, label=label)
    tuning = candidates[best]
    chosen = {"learning_rate": tuning.learning_rate, "weight_decay": tuning.weight_decay, "validation": score}
    if data.test is None:
        return Measurement({data.metric: score}, chosen)
    both = data.train_and_validation()
    network = tuner.fit(both, grid.candidates(len(both))[best], label=f"{label}, the chosen one")
    return Measurement({data.metric: tuner.score(network, data.test, data.metric)}, chosen)


def transfer_table(scores: Sequence[Mapping[str, Any]], missing: set[str]) -> str:
    """The paper's table: one column per set, the encoder and a random one, what is missing marked."""
    columns: list[tuple[str, ...]] = [("", "encoder", "random")]
    for name, facts in TRANSFER_SETS.items():
        found = [s for s in scores if s["protocol"] == "transfer" and s["settings"]["set"] == name]
        mark = "missing" if name in missing else "–"
        values = [found[-1][row].get(facts.metric) if found else None for row in ("metrics", "control")]
        columns.append((facts.title, *(mark if value is None else f"{value:.1f}" for value in values)))
    widths = [max(map(len, column)) for column in columns]
    rows = zip(*columns, strict=True)
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
