"""Checks of what the command line asks of the protocols, before any work."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_args

from hardpair.errors import UserError, require_range
from hardpair.evaluate.context import Settings
from hardpair.options import Evaluate, ProtocolName
from hardpair.recipes import check_field

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


def settings_from(options: Evaluate) -> Settings:
    """The settings of the protocols, checked."""
    _refuse_unused(options)
    for name, value, _ in _values(options):
        if name in RANGES and value is not None:
            require_range(name, value, *RANGES[name])
    if options.image_size is not None:
        check_field("image_size", options.image_size)
    if not options.tuned.labels:
        raise UserError("labels: give at least one share, 0.1 say")
    return Settings(options.knn, options.tuned, options.distilled, options.transferred)


def _refuse_unused(options: Evaluate) -> None:
    """An option that changes nothing would let the user believe it did."""
    if not options.protocol:
        raise UserError(f"protocol: give at least one of {', '.join(get_args(ProtocolName))}")
    asked: set[str] = set(options.protocol)
    if options.tuned.augmented:
        asked |= {f"{name} --augmented" for name in asked & {"linear"}}
    if options.transferred.finetune:
        asked |= {f"{name} --finetune" for name in asked & {"transfer"}}
    for name, value, default in _values(options):
        users = USED_BY.get(name)
        if users and value != default and not asked & set(users):
            raise UserError(f"{name}: changes nothing here; it goes with --protocol {' or '.join(users)}")
    if options.distilled.learner is None and options.distilled.learner_width != 1:
        raise UserError("learner_width: goes with --learner")


def _values(options: Any) -> Iterator[tuple[str, Any, Any]]:
    """Name, value and default of every option, those of the groups too."""
    for field in fields(options):
        value = getattr(options, field.name)
        if is_dataclass(value):
            yield from _values(value)
        else:
            yield field.name, value, field.default
