"""The contract of a method."""

import abc
from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor, nn

from hardpair.models import Encoder
from hardpair.views import Draw


@dataclass(frozen=True)
class Pairs:
    """Negative pairs of a batch: image ``anchor[k]`` was told to keep away from image ``negative[k]``."""

    anchor: Tensor  # int64 (K,), positions in the batch
    negative: Tensor  # int64 (K,)
    distance: Tensor  # float (K,)


class Method(nn.Module, abc.ABC):
    """What the trainer may ask of a self-supervised method; there is nothing else to know.

    A method is built from an encoder and keyword-only settings. It is abstract or final: none inherits from another.
    """

    encoder: Encoder  # all that an evaluator is handed
    whole_batch_norm: bool = True  # batch norm sees the whole batch, also where processes share it; else its own part

    def prepare(self, pixels: Tensor) -> None:
        """Look at the images, uint8 (N, 3, H, W), before anything runs: size a memory, refuse what cannot work.

        They may be mapped from a disk that has more of them than the memory holds, so look at some and copy few.
        """

    def constant_rate(self) -> Iterable[nn.Parameter]:
        """Parameters whose learning rate no schedule changes."""
        return ()

    @abc.abstractmethod
    def views(self, images: Tensor, draw: Draw) -> list[Tensor]:
        """Uint8 images (N, 3, H, W) → what `forward` wants."""

    @abc.abstractmethod
    def forward(self, views: list[Tensor]) -> dict[str, Tensor]:
        """``loss`` (a scalar), ``features`` (N, D) of the trained encoder, and any scalars worth logging."""

    def head_layer(self) -> nn.Sequential | None:
        """The part of the head that fine-tuning with few labels should keep; None where it begins at the encoder."""
        return None

    def after_step(self, progress: float) -> None:
        """Moving averages and the like; ``progress`` is the share of training done, in (0, 1]."""

    def hard_pairs(self, views: list[Tensor]) -> Pairs | None:  # noqa: ARG002
        """The negative pairs this method mines in a batch, for people to look at; None where it mines nothing.

        Where several processes share a batch, each gives the views of its own rows and gets the pairs of all.
        """
        return None
