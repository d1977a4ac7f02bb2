"""Settings of the evaluation protocols; light, so that the command line can ask for them without importing torch."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hardpair.errors import UserError, nearest, require_range

ProtocolName = Literal["knn", "linear", "semi", "transfer", "distill"]
PresetName = Literal["simclr", "byol", "byol-scaled", "simclrv2", "simclrv2-wide"]
SetName = Literal["food101", "cifar10", "sun397", "cars", "pets", "voc2007", "flowers102"]


@dataclass(frozen=True)
class Knn:
    """For --protocol knn.

    Args:
        k: neighbours that vote.
        temperature: of the votes.
    """

    k: int = 200
    temperature: float = 0.1


@dataclass(frozen=True)
class Tuned:
    """For --protocol linear (augmented), semi and the beginning of distill; what is not given is as published.

    Args:
        augmented: linear in ImageNet's form: a layer trained by SGD on random crops; else a regression on features.
        labels: shares of the labels, for semi and distill.
        subset_seed: which images are labelled, where there is no official list.
        preset: whose settings to fine-tune with, for semi and distill.
        epochs: in place of the published number.
        batch_size: in place of the published one; the learning rate follows by the preset's rule.
    """

    augmented: bool = False
    labels: tuple[float, ...] = (0.01, 0.1)
    subset_seed: int = 0
    preset: PresetName = "simclr"
    epochs: int | None = None
    batch_size: int | None = None


@dataclass(frozen=True)
class Distilled:
    """For --protocol distill, once a network has been fine-tuned as for semi.

    Args:
        learner: the encoder that learns ("resnet18"); the same shape when not given.
        learner_width: its width.
        learner_epochs: passes over all training images.
        learner_batch_size: images per step; the learning rate follows its square root.
    """

    learner: str | None = None
    learner_width: float = 1.0
    learner_epochs: int = 400
    learner_batch_size: int = 4096


@dataclass(frozen=True)
class Transferred:
    """For --protocol transfer.

    Args:
        sets: all seven when not given; those that are not on disk are marked as missing.
        finetune: train the whole network instead of a regression on features.
        grid: of fine-tuning: four trainings of 500 steps, or the published 56 of 20,000.
        steps: of each training, in place of the grid's.
        download: get missing sets where torchvision can.
    """

    sets: tuple[SetName, ...] = ()
    finetune: bool = False
    grid: Literal["short", "published"] = "short"
    steps: int | None = None
    download: bool = False


@dataclass(frozen=True)
class Settings:
    """Settings of all protocols; the defaults are the published ones."""

    knn: Knn = field(default_factory=Knn)
    tuned: Tuned = field(default_factory=Tuned)
    distilled: Distilled = field(default_factory=Distilled)
    transferred: Transferred = field(default_factory=Transferred)


FEW_LABELS = ("semi", "distill")
USED_BY: dict[str, tuple[str, ...]] = {
    "data": ("knn", "linear", *FEW_LABELS),
    **dict.fromkeys(("k", "temperature"), ("knn",)),
    "augmented": ("linear",),
    **dict.fromkeys(("labels", "subset_seed", "preset"), FEW_LABELS),
    **dict.fromkeys(("epochs", "batch_size"), (*FEW_LABELS, "linear --augmented")),
    **dict.fromkeys(("learner", "learner_width", "learner_epochs", "learner_batch_size"), ("distill",)),
    **dict.fromkeys(("sets", "finetune", "download"), ("transfer",)),
    **dict.fromkeys(("grid", "steps"), ("transfer --finetune",)),
}
"""The protocols that use an option; options that are not here are for all."""
RANGES = {
    "k": (1, 10_000_000),
    "temperature": (1e-4, 1e4),
    "epochs": (1, 1_000_000),
    "batch_size": (2, 1_000_000),
    "learner_epochs": (1, 1_000_000),
    "learner_batch_size": (2, 1_000_000),
    "steps": (1, 10_000_000),
}


def settings_from(protocols: Sequence[str], given: Mapping[str, Any]) -> Settings:
    """The settings with these fields changed, checked: a field that no protocol uses would change nothing."""
    known = {name: group for group, names in _fields() for name in names}
    for name, value in given.items():
        if name not in known:
            raise UserError(f"{name}: the protocols have no such setting{nearest(name, known)}")
        if name in RANGES and value is not None:
            require_range(name, value, *RANGES[name])
    refuse_unused(protocols, given)
    groups = {group: {name: value for name, value in given.items() if known[name] == group} for group in known.values()}
    defaults = Settings()
    settings = Settings(
        **{group: dataclasses.replace(getattr(defaults, group), **changed) for group, changed in groups.items()}
    )
    if not settings.tuned.labels:
        raise UserError("labels: give at least one share, 0.1 say")
    if settings.distilled.learner is None and settings.distilled.learner_width != 1:
        raise UserError("learner_width: goes with --learner")
    return settings


def refuse_unused(protocols: Sequence[str], given: Mapping[str, Any]) -> None:
    """An option that changes nothing would let the user believe it did."""
    asked = {
        *protocols,
        *(f"{name} --augmented" for name in protocols if given.get("augmented")),
        *(f"{name} --finetune" for name in protocols if given.get("finetune")),
    }
    for name in given:
        users = USED_BY.get(name)
        if users and not asked & set(users):
            raise UserError(f"{name}: changes nothing here; it goes with --protocol {' or '.join(users)}")


def _fields() -> Iterator[tuple[str, list[str]]]:
    """Each group of settings, and the names of its fields."""
    for group in dataclasses.fields(Settings):
        assert isinstance(group.type, type)
        yield group.name, [field.name for field in dataclasses.fields(group.type)]
