"""The settings of protocols from what the command line says."""

from dataclasses import replace

from hardpair.errors import UserError, require_range
from hardpair.evaluate.distill import Distilling
from hardpair.evaluate.probe import Probing
from hardpair.evaluate.run import Settings
from hardpair.evaluate.semi import FewLabels
from hardpair.evaluate.transfer import GRIDS, Transfer
from hardpair.options import Distilled, Evaluate, Transferred, Tuned
from hardpair.recipes.tuning import PRESETS


def settings_from(options: Evaluate) -> Settings:
    """What was asked for, and as published where nothing was. What no protocol asked for would use is refused."""
    _refuse_unused(options)
    tuned = options.tuned
    given = {name: value for name in ("epochs", "batch_size") if (value := getattr(tuned, name)) is not None}
    for name, value in given.items():
        require_range(name, value, 1 if name == "epochs" else 2, 1_000_000)
    require_range("k", options.knn.k, 1, 10_000_000)
    return Settings(
        knn={"k": options.knn.k, "temperature": options.knn.temperature},
        probing=replace(Probing(), **given) if tuned.augmented else None,
        few_labels=_few_labels(tuned),
        distilling=_distilling(options.distilled),
        transfer=_transfer(options.transferred),
    )


def _refuse_unused(options: Evaluate) -> None:
    """An option that changes nothing would let the user believe it did."""
    asked, tuned, transferred = set(options.protocol), options.tuned, options.transferred
    trains = asked & {"semi", "distill"} or ("linear" in asked and tuned.augmented)
    if (tuned.epochs is not None or tuned.batch_size is not None) and not trains:
        raise UserError("epochs, batch_size: go with --protocol semi or distill, or with linear --augmented")
    if tuned.augmented and "linear" not in asked:
        raise UserError("augmented: goes with --protocol linear")
    if (transferred.steps is not None or transferred.grid != "short") and not transferred.finetune:
        raise UserError("steps, grid: go with --protocol transfer --finetune")
    if (transferred.finetune or transferred.sets or transferred.download) and "transfer" not in asked:
        raise UserError("sets, finetune, download: go with --protocol transfer")
    if options.distilled != Distilled() and "distill" not in asked:
        raise UserError("learner…: goes with --protocol distill")
    if options.distilled.learner is None and options.distilled.learner_width != 1:
        raise UserError("learner_width: goes with --learner")


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
