"""What every protocol works with: settings, the run's encoder and labelled images, and what measuring returns."""

import functools
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from hardpair import distributed
from hardpair.data import Images, hold_out, open_images
from hardpair.data.images import Split, larger_square
from hardpair.data.layout import why_unlabelled
from hardpair.data.store import OtherSizeError
from hardpair.errors import UserError
from hardpair.evaluate.features import features_of
from hardpair.evaluate.metrics import METRICS
from hardpair.files import append_json, commit, parse_json, read_plain, write_atomically
from hardpair.models import Encoder, build_encoder

PARTIAL_FILE = "trials.jsonl"
MAX_BYTES = 64_000_000  # of that file; hundreds of thousands of lines
T = TypeVar("T")


@dataclass(frozen=True)
class Measurement:
    """Metrics in per cent, the hyperparameters that were chosen on held-out images, and the seconds it took."""

    metrics: dict[str, float]
    chosen: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


def is_measurement(value: Any) -> bool:
    """Whether a value read from a file can be one; a random encoder that diverged has no metrics."""
    if not isinstance(value, dict) or value.keys() != {field.name for field in fields(Measurement)}:
        return False
    metrics, chosen, seconds = value["metrics"], value["chosen"], value["seconds"]
    if not isinstance(metrics, dict) or not isinstance(chosen, dict):
        return False
    known = not metrics or next(iter(metrics)) in METRICS  # the first is the one that is printed
    in_range = all(type(number) is float and 0 <= number <= 100 for number in metrics.values())
    return known and in_range and type(seconds) is float and 0 <= seconds < math.inf


@dataclass(frozen=True)
class Task:
    """One score to measure, in the same way for the trained encoder and for the random one.

    Settings and data are known before anything is measured: with the encoder they identify a result, so that an
    evaluation that was stopped can continue.
    """

    protocol: str
    settings: Mapping[str, Any]  # complete: everything that made the score
    data: Mapping[str, Images]  # at least train and test
    measure: Callable[[Encoder], Measurement]
    details: Mapping[str, Any] = field(default_factory=dict)  # more fields of the score
    head_hash: str = ""  # of a layer of the run's head, if it is used; the random encoder gets a random layer


@dataclass
class Context:
    """A run's encoder, its labelled images and its random control, and where and how to compute."""

    run: Path
    encoder: Encoder
    source: str  # of images
    size: int  # side in pixels at which the encoder sees images
    seed: int
    on: Literal["test", "validation"]
    root: Path  # of downloaded data sets
    device: torch.device
    say: Callable[[str], None]
    skip_broken: float = 0.0  # share of unreadable files that may be left out
    trained_at: int = 0  # side of the images of training, of which its views were cut
    missing_sets: set[str] = field(default_factory=set, init=False)  # transfer sets that are not on disk
    _images: dict[tuple[Split, int], Images] = field(default_factory=dict, init=False)

    @functools.cached_property
    def partial_results(self) -> "PartialResults":
        """Results of an earlier evaluation that was stopped, and of this one."""
        return PartialResults(self.run, self.say)

    @functools.cached_property
    def control(self) -> Encoder:
        """A random encoder of the same shape."""
        control = random_like(self.encoder, seed=self.seed, device=self.device)
        control.precision = self.encoder.precision
        return control

    def images(self, split: Split, size: int | None = None) -> Images:
        """Labelled images of a split; for ``on="validation"``, a fifth of the training images is the test split."""
        key = (split, size or self.size)
        if key not in self._images:
            self._images[key] = self._open(*key) if self.on == "test" else self._cut_validation(*key)
        return self._images[key]

    @property
    def whole(self) -> bool:
        """Whether the encoder sees whole images, as those for small ones do, which have a stem of their own."""
        return bool(self.encoder.settings.get("small_images", False))

    @property
    def stored(self) -> int:
        """Side of the squares to open: those of training where they are large enough, for nobody decodes them anew."""
        return self.size if self.whole else max(self.size, self.trained_at)

    def plain(self, split: Split) -> Images:
        """Images for protocols on features: the centre, where the squares of training are large enough for one."""
        return self._squares(functools.partial(self.images, split), self.stored, self.size).tested_at(self.size)

    def crops(self, split: Split) -> Images:
        """Images to cut random crops from, of the size that the encoder sees."""
        return self._squares(functools.partial(self.images, split), self.stored, self.size).shown_at(self.size)

    def centre(self, open_at: Callable[[int], Images]) -> Images:
        """Test images for fine-tuned networks: the centre (224 of 256 px), if need be of squares opened for it.

        Encoders for small images see them whole.
        """
        if self.whole:
            return open_at(self.size)
        least = larger_square(self.size)
        try:
            return self._squares(open_at, max(self.stored, least), least).tested_at(self.size)
        except OtherSizeError as error:
            raise UserError(  # no other --image-size would help: the size to open grows with it
                f"{self.source}: is packed, and this protocol tests on the centre of larger squares ({least} px for "
                f"{self.size}); give the pictures it was packed from with --data {error.source}"
            ) from error

    def _squares(self, open_at: Callable[[int], Images], size: int, least: int) -> Images:
        """Squares of this size, or those that a packed set has, if they are large enough."""
        try:
            return open_at(size)
        except OtherSizeError as error:
            if self.whole or error.size < least:
                raise
            return open_at(error.size)

    def features(self, encoder: Encoder, images: Images) -> tuple[Tensor, Tensor]:
        """Features (N, D), cached on disk, and labels."""
        assert images.labels is not None
        return features_of(encoder, images, self.device), images.labels

    def _open(self, split: Split, size: int) -> Images:
        images = open_images(self.source, split, size=size, root=self.root, skip_broken=self.skip_broken)
        if images.labels is None:
            raise no_labels(images)
        return images

    def _cut_validation(self, split: Split, size: int) -> Images:
        whole = self._open("train", size)
        assert whole.labels is not None
        kept, held = hold_out(whole.labels, share=0.2, seed=0)
        if split == "train":
            return whole.select(kept)
        return replace(whole.select(held), name=f"{whole.name.removesuffix('/train')}/validation")


def no_labels(images: Images) -> UserError:
    """Why there are none, and what to do about it."""
    why = f"has no labels to evaluate with{why_unlabelled(images.files)}"
    return UserError(
        f"{images.name}: {why}; give labelled images of your own, one folder per class, with --data FOLDER"
    )


def random_like(encoder: Encoder, *, seed: int, device: torch.device) -> Encoder:
    """The random control: an encoder of the same shape in eval mode, initialised as training would begin with it.

    Batch norm keeps the statistics of initialisation. Those of the training images would make the control weaker, the
    more so the deeper it is, and the trained encoder would be credited with the difference (docs/log.md).
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build_encoder(**encoder.settings).to(device).eval()


class PartialResults:
    """Results so far, in a file of the run, so that after a stop the same command continues with the rest.

    Plain values by the hash of everything they depend on; without a run nothing is written. Nor with several ranks:
    all would have to know the same, and their work, the features, is cached anyway.
    """

    def __init__(self, run: Path | None = None, say: Callable[[str], None] = lambda _: None) -> None:
        self.file = None if run is None or distributed.world_size() > 1 else run / PARTIAL_FILE
        self.say = say
        self.known = {} if self.file is None else _read_lines(self.file)
        self.used: set[str] = set()

    def get_or_compute(self, facts: Any, compute: Callable[[], T], is_valid: Callable[[Any], bool]) -> T:
        """The value known for these facts, if valid (anybody may have written the file); else compute and write it."""
        if self.file is None:
            return compute()
        key = hashlib.sha256(json.dumps([self._versions, facts]).encode()).hexdigest()
        if is_valid(self.known.get(key)):
            if not self.used:
                self.say(f"continuing an evaluation that was stopped ({self.file})")
            value: T = self.known[key]
        else:
            before = set(self.used)
            value = compute()
            append_json(self.file, {"key": key, "found": value})
            self._remove(self.used - before)  # intermediate results, which led to this one
        self.used.add(key)
        return value

    def clear(self) -> None:
        """The evaluation is complete, so the next one starts anew. Results of others that were stopped stay."""
        self._remove(self.used)

    def _remove(self, keys: Set[str]) -> None:
        if self.file is None or not keys:
            return
        left = [{"key": key, "found": value} for key, value in _read_lines(self.file).items() if key not in keys]
        if left:
            write_atomically(self.file, "".join(f"{json.dumps(line)}\n" for line in left).encode())
        else:
            self.file.unlink(missing_ok=True)

    @functools.cached_property
    def _versions(self) -> list[str | None]:
        """A score names one commit, so no part of it may come from another."""
        return [commit(), torch.__version__]


def _read_lines(file: Path) -> dict[str, Any]:
    """Every line that can be read; a line that a crash cut off, or that is not ours, is skipped."""
    try:
        lines = read_plain(file, most=MAX_BYTES).decode("utf-8", errors="replace").split("\n")
    except (OSError, ValueError):
        return {}
    known = {}
    for text in lines:
        try:
            line = parse_json(text)
        except ValueError:
            continue
        if isinstance(line, dict) and isinstance(line.get("key"), str):
            known[line["key"]] = line.get("found")
    return known
