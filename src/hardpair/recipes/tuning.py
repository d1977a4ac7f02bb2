"""How a network is trained with labels: the published settings of fine-tuning, by name."""

import itertools
import math
from dataclasses import dataclass
from typing import Literal

FEW = 0.05  # below this share of labels the published settings train longer


@dataclass(frozen=True)
class Tuning:
    """One training with labels, on crops and flips, along a cosine to 0; "sgd" is Nesterov's."""

    optimiser: Literal["sgd", "lars"]
    learning_rate: float
    batch_size: int
    steps: int
    weight_decay: float = 0.0
    warmup: float = 0.0  # share of the steps

    @property
    def decay_norms(self) -> bool:
        """Biases and norms are left out."""
        return False


@dataclass(frozen=True)
class Preset:
    """A published way to fine-tune with few labels; where it names several rates or lengths, validation chooses."""

    optimiser: Literal["sgd", "lars"]
    rates: tuple[float, ...]  # times the batch by the rule below
    rate_rule: Literal["batch / 256", "sqrt(batch)", "as given"]
    batch_size: int
    epochs: tuple[int, ...]  # with about 10 % of the labels
    epochs_with_few: tuple[int, ...]  # with about 1 %
    keep_head_layer: bool = False  # the classifier stands on the first layer of the head instead of on the encoder

    def candidates(self, images: int, *, share: float, batch_size: int | None = None) -> list[Tuning]:
        """The trainings to choose from, for so many labelled images.

        The published batch is cut so that an epoch has three steps, as it has at least on ImageNet's 1 %.
        """
        batch = min(batch_size or min(self.batch_size, max(2, images // 3)), images)
        steps = max(1, images // batch)
        return [
            Tuning(self.optimiser, scaled_rate(rate, self.rate_rule, batch), batch, epochs * steps)
            for rate, epochs in itertools.product(self.rates, self.epochs_with_few if share < FEW else self.epochs)
        ]


def scaled_rate(rate: float, rule: str, batch_size: int) -> float:
    """The learning rate for a batch."""
    return rate * {"batch / 256": batch_size / 256, "sqrt(batch)": math.sqrt(batch_size), "as given": 1.0}[rule]


PRESETS: dict[str, Preset] = {
    "simclr": Preset("sgd", (0.05,), "batch / 256", 4096, (30,), (60,)),
    # Whether the published rates are meant for the batch as it is or for one of 256 is not said; the authors' schedule
    # always multiplies, so the first is theirs to the letter and the second what their code would do.
    "byol": Preset("sgd", (0.1, 0.05, 0.02, 0.01, 0.005), "as given", 1024, (30, 50), (30, 50)),
    "byol-scaled": Preset("sgd", (0.1, 0.05, 0.02, 0.01, 0.005), "batch / 256", 1024, (30, 50), (30, 50)),
    "simclrv2": Preset("lars", (0.005,), "sqrt(batch)", 1024, (30,), (60,), keep_head_layer=True),
    # For width 2 and more, and for selective kernels.
    "simclrv2-wide": Preset("lars", (0.002,), "sqrt(batch)", 1024, (30,), (60,), keep_head_layer=True),
}
