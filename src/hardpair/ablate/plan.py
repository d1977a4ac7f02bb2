"""Which runs make up an ablation: for every seed the base and what differs from it in one setting."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hardpair.ablate.options import Ablate, Which
from hardpair.compare.plan import given_conditions, under_conditions
from hardpair.errors import UserError
from hardpair.recipes import RECIPES, Recipe, Setting, find_recipe
from hardpair.words import several

METHOD = "hnpm"
SETTLED: Mapping[str, Setting] = {"tau": 0.5, "mine": True, "block_student_gradient": True}
"""What the paper settles on."""


@dataclass(frozen=True)
class Variant:
    """The base, or the base with one setting changed."""

    name: str  # of its runs' folders
    label: str
    changes: Mapping[str, Setting] = field(default_factory=dict)

    @property
    def is_base(self) -> bool:
        """Whether it is what the ablations share."""
        return not self.changes


VARIANTS: Mapping[Which, tuple[Variant, ...]] = {
    "tau": (
        Variant("base", "tau 0.5"),
        Variant("tau-1", "tau 1", {"tau": 1.0}),
        Variant("tau-0.999", "tau 0.999", {"tau": 0.999}),
        Variant("tau-0", "tau 0", {"tau": 0.0}),
    ),
    "mining": (
        Variant("base", "with mining"),
        Variant("no-mining", "without mining", {"mine": False}),
    ),
    "gradient": (
        Variant("base", "gradient blocked"),
        Variant("student-gradient", "student gradient", {"block_student_gradient": False}),
    ),
}
"""The base first: it is in every folder, so that another recipe shows at once."""

USUAL_POINTS = 5


@dataclass(frozen=True)
class Job:
    """One run of the ablation."""

    variant: Variant
    seed: int
    recipe: Recipe
    run: Path
    epochs: tuple[int, ...]  # after which the encoder is judged; the last is the end
    steps_an_epoch: int

    @property
    def steps(self) -> tuple[int, ...]:
        """After which the encoder is judged."""
        return tuple(epoch * self.steps_an_epoch for epoch in self.epochs)

    def __str__(self) -> str:
        return f"{self.variant.label}, seed {self.seed}, {several(self.recipe.epochs, 'epoch')}"


def base_recipe(options: Ablate) -> Recipe:
    """The recipe asked for, under the conditions given, with what the paper settles on."""
    named = find_recipe(options.recipe)
    if named.method != METHOD:
        known = ", ".join(name for name, recipe in RECIPES.items() if recipe.method == METHOD)
        raise UserError(f"recipe: {named.name} is of {named.method}, and the ablations are of {METHOD}: give {known}")
    recipe = under_conditions(named, given_conditions(options, named))
    epochs = recipe.epochs if options.epochs is None else options.epochs
    return dataclasses.replace(recipe, epochs=epochs, settings={**recipe.settings, **SETTLED})


def plan_jobs(options: Ablate, images: int) -> list[Job]:
    """All runs on so many images: seeds outermost, so that an ablation stopped half way is balanced."""
    basis = base_recipe(options)
    return [
        _job(options, basis, variant, seed, images)
        for seed in range(options.seeds)
        for variant in VARIANTS[options.which]
    ]


def _job(options: Ablate, basis: Recipe, variant: Variant, seed: int, images: int) -> Job:
    recipe = dataclasses.replace(basis, seed=seed, settings={**basis.settings, **variant.changes})
    epochs = judged_epochs(options, variant, recipe.epochs)
    return Job(variant, seed, recipe, options.out / f"{variant.name}-s{seed}", epochs, images // recipe.batch_size)


def judged_epochs(options: Ablate, variant: Variant, epochs: int) -> tuple[int, ...]:
    """Equally spaced, the last one among them. The base has its curve whoever trains it: others will want to see it."""
    end_only = options.which == "tau" and not variant.is_base
    points = options.points or (1 if end_only else min(USUAL_POINTS, epochs))
    if points > epochs:
        raise UserError(f"points: {points} are more than the {epochs} epochs; give fewer points, or more epochs")
    return tuple(epochs * place // points for place in range(1, points + 1))
