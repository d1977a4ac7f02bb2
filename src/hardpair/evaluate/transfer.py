"""Transfer: the encoder on seven sets it never saw, by logistic regression on its features or by fine-tuning."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch

from hardpair.data import Images
from hardpair.data.transfer import TRANSFER_SETS, TransferSplit, open_transfer
from hardpair.errors import UserError, nearest
from hardpair.evaluate.linear import first_best
from hardpair.evaluate.logistic import predict, regression_path
from hardpair.evaluate.metrics import METRICS
from hardpair.evaluate.trial import Bench, Judgement, Trial
from hardpair.evaluate.tuned import FineTuner
from hardpair.models import Encoder
from hardpair.recipes.tuning import Tuning

STRENGTHS = tuple(10.0 ** (5 - 11 * place / 44) for place in range(45))  # 1e5 … 1e-6, from strong to weak


@dataclass(frozen=True)
class Grid:
    """Rates and weight decays to choose from, and how long each is tried."""

    rates: tuple[float, ...]
    weight_decays: tuple[float, ...]  # each is divided by the rate it goes with
    steps: int
    batch_size: int

    def candidates(self, images: int) -> list[Tuning]:
        """One training for each pair."""
        batch = min(self.batch_size, images)
        pairs = itertools.product(self.rates, self.weight_decays)
        return [Tuning("sgd", rate, batch, self.steps, weight_decay=decay / rate) for rate, decay in pairs]


GRIDS = {
    "published": Grid(
        tuple(10 ** (-4 + place / 2) for place in range(7)),
        (0.0, *(10 ** (-6 + place / 2) for place in range(7))),
        steps=20_000,
        batch_size=256,
    ),
    "short": Grid((0.01, 0.1), (0.0, 1e-4), steps=500, batch_size=64),
}


@dataclass(frozen=True)
class Transfer:
    """Which sets, and how.

    Args:
        sets: names of sets; all seven when empty.
        form: linear or finetune.
        grid: of fine-tuning.
        download: get a missing set where torchvision can.
    """

    sets: tuple[str, ...] = ()
    form: Literal["linear", "finetune"] = "linear"
    grid: Grid = GRIDS["short"]
    download: bool = False


def transfer_trials(bench: Bench, transfer: Transfer, missing: dict[str, str]) -> Iterator[Trial]:
    """One trial for each set that is there; what is missing goes into `missing`, with the reason."""
    for name in transfer.sets or TRANSFER_SETS:
        if name not in TRANSFER_SETS:
            raise UserError(f"sets: there is no {name!r}{nearest(name, TRANSFER_SETS)}")
        try:
            parts = Parts(name, bench, transfer)
        except UserError as error:  # missing, or there but broken
            missing[name] = str(error)
            bench.say(f"{name}: {error}")
            continue
        settings = {"set": name, "form": transfer.form, "metric": TRANSFER_SETS[name].metric}
        if transfer.form == "linear":
            yield Trial("transfer", {**settings, "strengths": STRENGTHS}, parts.data(), Linear(bench, parts))
        else:
            tuned = FineTune(bench, parts, transfer.grid)
            yield Trial("transfer", {**settings, **asdict(transfer.grid)}, parts.data(), tuned)


def transfer_table(scores: Sequence[Mapping[str, Any]], missing: Mapping[str, str]) -> str:
    """The paper's table: a column a set, the encoder and a random one, what is missing marked."""
    columns: list[tuple[str, ...]] = [("", "encoder", "random")]
    for name, facts in TRANSFER_SETS.items():
        found = [s for s in scores if s["protocol"] == "transfer" and s["settings"]["set"] == name]
        mark = "missing" if name in missing else "–"
        values = [found[-1][row].get(facts.metric) if found else None for row in ("metrics", "control")]
        columns.append((facts.title, *(mark if value is None else f"{value:.1f}" for value in values)))
    widths = [max(map(len, column)) for column in columns]
    rows = zip(*columns, strict=True)
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


class Parts:
    """The parts of a set. Scores to make choices with come from the validation part, and no test image is opened."""

    def __init__(self, name: str, bench: Bench, transfer: Transfer) -> None:
        self.name, self.bench, self.download = name, bench, transfer.download
        self.metric = TRANSFER_SETS[name].metric
        self.measure = METRICS[self.metric]
        self.train = self._open("train")
        self.validation = self._shown("validation", transfer.form)
        self.test = self._shown("test", transfer.form) if bench.on == "test" else None
        numbers = ", ".join(f"{len(images):,} {part}" for part, images in self.data().items())
        bench.say(f"{TRANSFER_SETS[name].title}: {numbers} images")

    def data(self) -> dict[str, Images]:
        """What a score is made of."""
        if self.test is None:
            return {"train": self.train, "test": self.validation}
        return {"train": self.train, "validation": self.validation, "test": self.test}

    def both(self) -> Images:
        """Training and validation, to train on; mapped from the cache like each of them."""
        return self._open("train+validation")

    def _shown(self, split: Literal["validation", "test"], form: str) -> Images:
        """The part as it is judged: fine-tuned networks see the centre of larger images."""
        return self._open(split) if form == "linear" else self.bench.centre(lambda size: self._open(split, size))

    def _open(self, split: TransferSplit, size: int | None = None) -> Images:
        size = size or self.bench.size
        return open_transfer(self.name, split, size=size, root=self.bench.root, download=self.download)


@dataclass(frozen=True)
class Linear:
    """Logistic regression on features, the strength chosen on validation, fitted again on both parts."""

    bench: Bench
    parts: Parts

    def __call__(self, encoder: Encoder) -> Judgement:
        """The metric on the test images."""
        parts, measure = self.parts, self.parts.measure
        train, validation = (self.bench.labelled(encoder, images) for images in (parts.train, parts.validation))
        classes = len(parts.train.classes)
        weights = regression_path(*train, STRENGTHS, classes=classes)
        scores = [measure(predict(validation[0], weight), validation[1]) for weight in weights]
        best = first_best(scores)
        chosen = {"strength": STRENGTHS[best], "validation": scores[best]}
        if parts.test is None:
            return Judgement({parts.metric: scores[best]}, chosen)
        both = (torch.cat([train[0], validation[0]]), torch.cat([train[1], validation[1]]))
        weight = regression_path(*both, STRENGTHS[: best + 1], classes=classes)[-1]
        features, labels = self.bench.labelled(encoder, parts.test)
        return Judgement({parts.metric: measure(predict(features, weight), labels)}, chosen)


@dataclass(frozen=True)
class FineTune:
    """The whole network, rate and weight decay chosen on validation, trained again on both parts."""

    bench: Bench
    parts: Parts
    grid: Grid

    def __call__(self, encoder: Encoder) -> Judgement:
        """The metric on the test images."""
        bench, parts, metric = self.bench, self.parts, self.parts.metric
        tuner = FineTuner(encoder, bench.seed, bench.device, norm_follows_epoch=True, kept=bench.kept)
        label = f"fine-tuning on {parts.train.name}"
        candidates = self.grid.candidates(len(parts.train))
        best, score = tuner.choose(candidates, parts.train, parts.validation, metric=metric, label=label)
        chosen = {"learning_rate": candidates[best].learning_rate, "weight_decay": candidates[best].weight_decay}
        chosen["validation"] = score
        if parts.test is None:
            return Judgement({metric: score}, chosen)
        both = parts.both()
        network = tuner.fit(both, self.grid.candidates(len(both))[best], label=f"{label}, the chosen one")
        return Judgement({metric: tuner.score(network, parts.test, metric)}, chosen)
