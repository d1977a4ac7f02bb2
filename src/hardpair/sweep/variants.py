"""What a sweep runs: variants of a recipe under shared conditions, each with several seeds."""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardpair.data import Images, open_images
from hardpair.data.images import Split
from hardpair.evaluate.context import no_labels
from hardpair.recipes import Recipe
from hardpair.sweep.options import SHARED, Conditions
from hardpair.text import several


@dataclass(frozen=True)
class Variant:
    """One row of the table: a recipe that is trained with several seeds."""

    name: str  # its runs are the folders NAME-s0, NAME-s1 …
    label: str  # in messages, tables and figures
    recipe: Recipe  # its seed does not count
    evaluated: tuple[int, ...] = ()  # epochs after which the encoder is evaluated; when not given, at the end
    budget: int = 0  # in epochs or forwards per image, where variants are compared at equal budgets
    cost: float | None = None  # forwards per image in one epoch, where it was measured

    @property
    def forwards(self) -> float:
        """Forwards per image over the whole run; epochs, where the cost is not known."""
        return (1.0 if self.cost is None else self.cost) * self.recipe.epochs


@dataclass(frozen=True)
class Job:
    """A variant with a seed: one run."""

    variant: Variant
    seed: int
    run: Path
    steps_per_epoch: int

    @property
    def recipe(self) -> Recipe:
        """What is trained."""
        return dataclasses.replace(self.variant.recipe, seed=self.seed)

    @property
    def recipe_hash(self) -> str:
        """Of everything that decides the outcome of the run."""
        return str(self.recipe.to_json()["hash"])

    @property
    def steps(self) -> tuple[int, ...]:
        """After which the encoder is evaluated; the last is the end."""
        epochs = self.variant.evaluated or (self.variant.recipe.epochs,)
        return tuple(epoch * self.steps_per_epoch for epoch in epochs)

    def __str__(self) -> str:
        cost = "" if self.variant.cost is None else f" ({self.variant.cost:.1f} forwards per image)"
        return f"{self.variant.label}, seed {self.seed}, {several(self.variant.recipe.epochs, 'epoch')}{cost}"


def plan_jobs(variants: Iterable[Variant], *, seeds: int, out: Path, images: int) -> list[Job]:
    """All runs on so many images: seeds outermost, so that a sweep stopped half way is balanced."""
    variants = tuple(variants)
    return [
        Job(variant, seed, out / f"{variant.name}-s{seed}", images // variant.recipe.batch_size)
        for seed in range(seeds)
        for variant in variants
    ]


def given_conditions(options: Conditions, basis: Recipe) -> dict[str, Any]:
    """What the options say of the shared conditions and the batch; where they say nothing, the recipe decides."""
    given = {name: getattr(options, name) for name in (*SHARED, "batch_size")}
    return {name: getattr(basis, name) if value is None else value for name, value in given.items()}


def under_conditions(recipe: Recipe, shared: Mapping[str, Any]) -> Recipe:
    """The recipe under these conditions; learning rates of SGD and LARS scale with the batch, as their papers say."""
    scale = 1.0 if recipe.optimiser == "adam" else shared.get("batch_size", recipe.batch_size) / recipe.batch_size
    return dataclasses.replace(recipe, **shared, learning_rate=recipe.learning_rate * scale)


def open_labelled(data: str, size: int, options: Conditions) -> Images:
    """The training images; anything that would keep the encoders from being evaluated shows here, before any run."""

    def opened(split: Split) -> Images:
        return open_images(data, split, size=size, root=options.data_root, skip_broken=options.skip_broken)

    train = opened("train")
    evaluated = opened("test") if options.on == "test" else train
    for images in (train, evaluated):
        if images.labels is None:
            raise no_labels(images)
    return train
