"""Which runs make up a comparison: for every seed, budget and method a recipe under shared conditions."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardpair.compare.conditions import Conditions
from hardpair.compare.options import Compare
from hardpair.errors import UserError, nearest
from hardpair.methods import METHODS, resolve_method
from hardpair.recipes import FAMILIES, SUPERVISED, Recipe, find_recipe
from hardpair.words import several

SHARED = tuple(field.name for field in dataclasses.fields(Conditions) if field.name != "batch_size")
"""What all methods of a comparison have in common, whatever is given. A batch they have in common only if one is given:
large ones are good for some methods, small ones for others."""


@dataclass(frozen=True)
class Job:
    """One run of the comparison."""

    method: str
    seed: int
    budget: int
    cost: float  # forwards per image in one epoch
    recipe: Recipe
    run: Path

    @property
    def forwards(self) -> float:
        """Forwards per image over the whole run."""
        return self.cost * self.recipe.epochs

    @property
    def recipe_hash(self) -> str:
        """Of all that decides how the run comes out."""
        return str(self.recipe.to_json()["hash"])

    def __str__(self) -> str:
        epochs = several(self.recipe.epochs, "epoch")
        return f"{self.method}, seed {self.seed}, {epochs} ({self.cost:.1f} forwards per image)"


def chosen_methods(options: Compare) -> list[str]:
    """The methods asked for, each once, in the order given."""
    if options.family not in FAMILIES:
        raise UserError(f"family: there is no {options.family!r}{nearest(options.family, FAMILIES)}")
    words = [resolve_method(word.strip()) for word in options.methods.split(",") if word.strip()]
    known = [*METHODS, SUPERVISED]
    if not words:
        raise UserError(f"methods: give some with commas between them, or all; there are {', '.join(known)}")
    for word in words:
        if word not in (*known, "all"):
            raise UserError(f"methods: there is no {word!r}{nearest(word, [*known, 'all'])}")
    return known if "all" in words else list(dict.fromkeys(words))


def shared_conditions(options: Compare) -> dict[str, Any]:
    """What was given, and for the rest what the family's HNPM has; a batch that was not given is each method's own."""
    shared = given_conditions(options, find_recipe(options.family))
    return shared if options.batch_size is not None else {name: shared[name] for name in SHARED}


def given_conditions(options: Conditions, basis: Recipe) -> dict[str, Any]:
    """What the options say of the shared conditions and the batch; where they say nothing, the recipe decides."""
    given = {name: getattr(options, name) for name in (*SHARED, "batch_size")}
    return {name: getattr(basis, name) if value is None else value for name, value in given.items()}


def under_conditions(recipe: Recipe, shared: Mapping[str, Any]) -> Recipe:
    """The recipe under these conditions; SGD's and LARS's rates follow the batch, as their papers say."""
    scale = 1.0 if recipe.optimiser == "adam" else shared.get("batch_size", recipe.batch_size) / recipe.batch_size
    return dataclasses.replace(recipe, **shared, learning_rate=recipe.learning_rate * scale)


def measure_costs(options: Compare, methods: Sequence[str], cost_of: Callable[[Recipe], float]) -> dict[str, float]:
    """Forwards per image of each method; any method that cannot work under these conditions shows here."""
    costs = {}
    for method in methods:
        try:
            costs[method] = cost_of(_recipe_of(options, method))
        except UserError as error:
            raise UserError(f"{method}: {error}") from error
    return costs


def plan_jobs(options: Compare, costs: Mapping[str, float]) -> list[Job]:
    """All runs: seeds outermost and cheap budgets first, so that a comparison stopped half way is balanced."""
    budgets = sorted(set(options.budget))
    return [
        _job(options, method, seed, budget, cost)
        for seed in range(options.seeds)
        for budget in budgets
        for method, cost in costs.items()
    ]


def _job(options: Compare, method: str, seed: int, budget: int, cost: float) -> Job:
    epochs = budget if options.unit == "epochs" else max(1, int(budget / cost))
    recipe = _recipe_of(options, method)
    warmup = recipe.warmup_epochs * epochs / recipe.epochs
    recipe = dataclasses.replace(recipe, seed=seed, epochs=epochs, warmup_epochs=warmup)
    return Job(method, seed, budget, cost, recipe, options.out / f"{method}-b{budget}-s{seed}")


def _recipe_of(options: Compare, method: str) -> Recipe:
    return under_conditions(find_recipe(f"{options.family}/{method}"), shared_conditions(options))
