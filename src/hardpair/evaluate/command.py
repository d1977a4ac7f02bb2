"""The settings of protocols from what the command line says."""

from dataclasses import replace

from hardpair.errors import UserError
from hardpair.evaluate.distill import Distilling
from hardpair.evaluate.probe import Probing
from hardpair.evaluate.run import Settings
from hardpair.evaluate.semi import FewLabels
from hardpair.evaluate.transfer import GRIDS, Transfer
from hardpair.options import Evaluate, Transferred, Tuned
from hardpair.recipes.tuning import PRESETS


def settings_from(options: Evaluate) -> Settings:
    """What was asked for, and as published where nothing was."""
    tuned = options.tuned
    for name in ("epochs", "batch_size"):
        if (value := getattr(tuned, name)) is not None and value < (1 if name == "epochs" else 2):
            raise UserError(f"{name}: {value} is too few")
    knn = {"k": options.knn.k, "temperature": options.knn.temperature}
    given = {name: value for name in ("epochs", "batch_size") if (value := getattr(tuned, name)) is not None}
    return Settings(
        knn=knn,
        probing=replace(Probing(), **given) if tuned.augmented else None,
        few_labels=_few_labels(tuned),
        distilling=replace(Distilling(), learner=tuned.learner, learner_width=tuned.learner_width, **given),
        transfer=_transfer(options.transferred),
    )


def _few_labels(tuned: Tuned) -> FewLabels:
    preset = PRESETS[tuned.preset]
    if tuned.epochs is not None:
        preset = replace(preset, epochs=(tuned.epochs,), epochs_with_few=(tuned.epochs,))
    return FewLabels(tuned.labels, tuned.preset, preset, batch_size=tuned.batch_size)


def _transfer(options: Transferred) -> Transfer:
    grid = GRIDS[options.grid]
    if options.steps is not None:
        if options.steps < 1:
            raise UserError(f"steps: {options.steps} is too few")
        grid = replace(grid, steps=options.steps)
    return Transfer(options.sets, "finetune" if options.finetune else "linear", grid, options.download)
