"""The settings of protocols from what the command line says."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, get_args

from hardpair.errors import UserError, require_range
from hardpair.evaluate.distill import Distilling
from hardpair.evaluate.probe import Probing
from hardpair.evaluate.run import Settings
from hardpair.evaluate.semi import FewLabels
from hardpair.evaluate.transfer import GRIDS, Transfer
from hardpair.options import Distilled, Evaluate, ProtocolName, Transferred, Tuned
from hardpair.recipes import check_field
from hardpair.recipes.tuning import PRESETS

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
"""The protocols that an option changes something for; those that are not here are for all."""


def settings_from(options: Evaluate) -> Settings:
    """What was asked for, and as published where nothing was. What no protocol asked for would use is refused."""
    _refuse_unused(options)
    tuned = options.tuned
    given = {name: value for name in ("epochs", "batch_size") if (value := getattr(tuned, name)) is not None}
    for name, value in given.items():
        require_range(name, value, 1 if name == "epochs" else 2, 1_000_000)
    require_range("k", options.knn.k, 1, 10_000_000)
    require_range("temperature", options.knn.temperature, 1e-4, 1e4)
    if options.image_size is not None:
        check_field("image_size", options.image_size)
    return Settings(
        knn={"k": options.knn.k, "temperature": options.knn.temperature},
        probing=replace(Probing(), **given) if tuned.augmented else None,
        few_labels=_few_labels(tuned),
        distilling=_distilling(options.distilled),
        transfer=_transfer(options.transferred),
    )


def _refuse_unused(options: Evaluate) -> None:
    """An option that changes nothing would let the user believe it did."""
    if not options.protocol:
        raise UserError(f"protocol: give at least one of {', '.join(get_args(ProtocolName))}")
    asked: set[str] = set(options.protocol)
    if options.tuned.augmented:
        asked |= {f"{name} --augmented" for name in asked & {"linear"}}
    if options.transferred.finetune:
        asked |= {f"{name} --finetune" for name in asked & {"transfer"}}
    for name in _given(options):
        users = USED_BY.get(name)
        if users and not asked & set(users):
            raise UserError(f"{name}: changes nothing here; it goes with --protocol {' or '.join(users)}")
    if options.distilled.learner is None and options.distilled.learner_width != 1:
        raise UserError("learner_width: goes with --learner")


def _given(options: Any) -> Iterator[str]:
    """Names of all options that are not at their defaults."""
    for field in fields(options):
        value = getattr(options, field.name)
        if is_dataclass(value):
            yield from _given(value)
        elif value != field.default:
            yield field.name


def _distilling(options: Distilled) -> Distilling:
    require_range("learner_epochs", options.learner_epochs, 1, 1_000_000)
    require_range("learner_batch_size", options.learner_batch_size, 2, 1_000_000)
    return Distilling(options.learner, options.learner_width, options.learner_epochs, options.learner_batch_size)


def _few_labels(tuned: Tuned) -> FewLabels:
    if not tuned.labels:
        raise UserError("labels: give at least one share, 0.1 say")
    preset = PRESETS[tuned.preset]
    if tuned.epochs is not None:
        preset = replace(preset, epochs=(tuned.epochs,), epochs_with_few=(tuned.epochs,))
    return FewLabels(tuned.labels, tuned.preset, preset, tuned.batch_size, tuned.subset_seed)


def _transfer(options: Transferred) -> Transfer:
    grid = GRIDS[options.grid]
    if options.steps is not None:
        require_range("steps", options.steps, 1, 10_000_000)
        grid = replace(grid, steps=options.steps)
    return Transfer(options.sets, "finetune" if options.finetune else "linear", grid, options.download)
