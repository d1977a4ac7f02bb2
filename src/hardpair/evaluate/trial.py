"""What a protocol is: one or more trials, each of which can judge any encoder."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from hardpair.data import Images, hold_out, open_images
from hardpair.data.images import Split
from hardpair.data.layout import why_unlabelled
from hardpair.data.store import OtherSizeError
from hardpair.errors import UserError
from hardpair.evaluate.control import random_like
from hardpair.evaluate.features import features_of
from hardpair.evaluate.kept import Kept
from hardpair.evaluate.metrics import METRICS
from hardpair.models import Encoder

Metrics = dict[str, float]
Labelled = tuple[Tensor, Tensor]  # features (N, D), labels (N,)


@dataclass(frozen=True)
class Judgement:
    """What was measured, in per cent, what the protocol chose on the way (a strength, a rate), how long it took."""

    metrics: Metrics
    chosen: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


def is_judgement(value: Any) -> bool:
    """Whether a value out of a file can be one; a random encoder that diverged has no metrics."""
    if not isinstance(value, dict) or value.keys() != {field.name for field in fields(Judgement)}:
        return False
    metrics, chosen, seconds = value["metrics"], value["chosen"], value["seconds"]
    if not isinstance(metrics, dict) or not isinstance(chosen, dict):
        return False
    known = not metrics or next(iter(metrics)) in METRICS  # the first is what is said of it
    measured = all(type(number) is float and 0 <= number <= 100 for number in metrics.values())
    return known and measured and type(seconds) is float and 0 <= seconds < math.inf


@dataclass(frozen=True)
class Trial:
    """One score to be made: the same for the trained encoder and for the random one."""

    protocol: str
    settings: Mapping[str, Any]  # complete: a score must say all that made it
    data: Mapping[str, Images]  # what it uses; at least train and test
    judge: Callable[[Encoder], Judgement]
    facts: Mapping[str, Any] = field(default_factory=dict)  # more to write down
    own: str = ""  # hash of what else of the run is used; the random encoder is then given something like it


class Bench:
    """What every protocol may use: the images of the run, and where and how to work."""

    def __init__(
        self,
        run: Path,
        encoder: Encoder,
        *,
        source: str,
        size: int,
        seed: int,
        on: Literal["test", "validation"],
        root: Path,
        device: torch.device,
        say: Callable[[str], None],
    ) -> None:
        self.run, self.encoder = run, encoder
        self.source, self.size, self.seed, self.on = source, size, seed, on
        self.root, self.device, self.say = root, device, say
        self.kept = Kept(run, say)
        self._images: dict[tuple[str, int], Images] = {}
        self._control: Encoder | None = None

    def images(self, part: Split, size: int | None = None) -> Images:
        """Labelled images of the run; to make choices with, a fifth of the training images stands for the test's."""
        key = (part, size or self.size)
        if key not in self._images:
            self._images[key] = self._open(*key) if self.on == "test" else self._share(*key)
        return self._images[key]

    def centre(self, open_at: Callable[[int], Images]) -> Images:
        """Images as fine-tuned networks are tested on them: opened at 256 where the size is 224, and their centre.

        Small images, for which an encoder has a stem of its own, are shown whole.
        """
        whole = self.encoder.settings["small_images"]
        return open_at(self.size if whole else round(self.size * 256 / 224)).centre(self.size)

    def features(self, encoder: Encoder, images: Images) -> Tensor:
        """Features, from the cache where it has them."""
        return features_of(encoder, images, self.device)

    def labelled(self, encoder: Encoder, images: Images) -> Labelled:
        """Features and labels."""
        assert images.labels is not None
        return self.features(encoder, images), images.labels

    def control(self) -> Encoder:
        """The random encoder that stands beside the trained one."""
        if self._control is None:
            self._control = random_like(self.encoder, seed=self.seed, device=self.device)
        return self._control

    def _open(self, split: Split, size: int) -> Images:
        try:
            images = open_images(self.source, split, size=size, root=self.root)
        except OtherSizeError as error:
            if size == self.size:
                raise
            raise UserError(  # no other --image-size would help: the square to open grows with it
                f"{self.source}: is packed, and this protocol tests on the centre of larger squares ({size} px for "
                f"{self.size}); give the pictures it was packed from with --data {error.source}"
            ) from error
        if images.labels is None:
            why = why_unlabelled(images.files)
            raise UserError(f"{images.name}: has no labels to judge with{why}; give a labelled set with --data")
        return images

    def _share(self, part: Split, size: int) -> Images:
        whole = self._open("train", size)
        assert whole.labels is not None
        kept, held = hold_out(whole.labels, share=0.2, seed=0)
        if part == "train":
            return whole.select(kept)
        return replace(whole.select(held), name=f"{whole.name.removesuffix('/train')}/validation")
