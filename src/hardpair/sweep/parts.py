"""`hardpair ablate parts`: what each part of HNPM is worth, and of the softmax losses beside it.

A cell is one choice of every part. Not all combinations are trained: for each part there are pairs of cells that
differ in it alone, and its effect is the mean difference of these pairs, seed by seed. All cells share encoder, head,
views and images, and spend the same number of forwards per image.

Of the softmax cells some are known by other names: without the positive in its sum the loss is decoupled contrastive
learning (Yeh et al. 2021), with it and an averaged partner MoCo v3's without its predictor, with it and a trained
partner SimCLR's.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from hardpair.errors import UserError, nearest
from hardpair.recipes import Recipe, Setting
from hardpair.sweep.ablate import base_recipe
from hardpair.sweep.figures import draw_effects
from hardpair.sweep.options import Ablate
from hardpair.sweep.results import SCORES, Effect, Result, Summary, summarise
from hardpair.sweep.run_scores import RunScores
from hardpair.sweep.runner import run_sweep
from hardpair.sweep.tables import KNN_COLUMNS, LINEAR_COLUMNS, Columns, Lines, Output, Page, Setup, setup_now, table_of
from hardpair.sweep.variants import Job, Variant, given_conditions, open_labelled, plan_jobs
from hardpair.train import pick_device
from hardpair.train.cost import forward_equivalents

EQ4: Mapping[str, Setting] = {"softness": 0.0, "threshold": 1.0}  # positives settle at distance alpha_neg / alpha_pos
SOFT: Mapping[str, Setting] = {"softness": 0.2, "mine": False}
INFO_NCE: Mapping[str, Setting] = {**SOFT, "positive_in_sum": True}
TRAINED: Mapping[str, Setting] = {"share_weights": True, "block_student_gradient": False}
STOPPED: Mapping[str, Setting] = {"share_weights": True}
SLOW: Mapping[str, Setting] = {"tau": 0.99}
NO_SMALL: Mapping[str, Setting] = {"small_views": 0}
PARTS: Mapping[str, Setting] = {
    "mine": True,
    "nearest": False,
    "positive_in_sum": False,
    "tau": 0.5,
    "block_student_gradient": True,
    "share_weights": False,
    "small_views": 1,
}
"""Of a cell that says nothing else."""
LARGER_BATCH, LARGER_RATE = 4, 3  # times those of the recipe; docs/log.md has the rates that were tried
MORE_SEEDS = 2  # of cells that carry a claim


@dataclass(frozen=True)
class Cell:
    """One choice of every part."""

    label: str
    settings: Mapping[str, Setting]
    claim: bool = False
    larger_batch: bool = False


def _cell(label: str, *settings: Mapping[str, Setting], claim: bool = False, larger_batch: bool = False) -> Cell:
    merged = {name: value for part in (PARTS, *settings) for name, value in part.items()}
    return Cell(label, merged, claim, larger_batch)


CELLS: Mapping[str, Cell] = {
    "eq4": _cell("Eq. 4", EQ4, claim=True),
    "eq4-all-pairs": _cell("Eq. 4, all pairs", EQ4, {"mine": False}, claim=True),
    "eq4-nearest": _cell("Eq. 4, nearest pair only", EQ4, {"nearest": True}),
    "eq4-no-small": _cell("Eq. 4, no small view", EQ4, NO_SMALL),
    "eq4-trained": _cell("Eq. 4, trained partner", EQ4, TRAINED, claim=True),
    "eq4-stopped": _cell("Eq. 4, stopped partner", EQ4, STOPPED),
    "eq4-slow": _cell("Eq. 4, tau .99", EQ4, SLOW),
    "soft": _cell("soft", SOFT, claim=True),
    "soft-mined": _cell("soft, threshold 1.4", SOFT, {"mine": True, "threshold": 1.4}),
    "soft-no-small": _cell("soft, no small view", SOFT, NO_SMALL),
    "soft-trained": _cell("soft, trained partner", SOFT, TRAINED),
    "soft-stopped": _cell("soft, stopped partner", SOFT, STOPPED),
    "soft-slow": _cell("soft, tau .99", SOFT, SLOW),
    "nce": _cell("InfoNCE", INFO_NCE, claim=True),
    "nce-trained": _cell("InfoNCE, trained partner", INFO_NCE, TRAINED, claim=True),
    "nce-trained-no-small": _cell("InfoNCE, trained partner, no small view", INFO_NCE, TRAINED, NO_SMALL),
    "eq4-large": _cell("Eq. 4, larger batch", EQ4, larger_batch=True),
    "soft-large": _cell("soft, larger batch", SOFT, larger_batch=True),
    "nce-large": _cell("InfoNCE, larger batch", INFO_NCE, larger_batch=True),
    "nce-trained-large": _cell("InfoNCE, trained partner, larger batch", INFO_NCE, TRAINED, larger_batch=True),
}
EFFECTS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "mining, in Eq. 4": (("eq4", "eq4-all-pairs"),),
    "nearest pair only, in Eq. 4": (("eq4-nearest", "eq4"),),
    "threshold, beside a softmax": (("soft-mined", "soft"),),
    "positive left out of the sum": (("soft", "nce"), ("soft-trained", "nce-trained"), ("soft-large", "nce-large")),
    "Eq. 4 in place of the soft sum": (
        ("eq4", "soft"),
        ("eq4-trained", "soft-trained"),
        ("eq4-stopped", "soft-stopped"),
        ("eq4-no-small", "soft-no-small"),
    ),
    "averaged partner, not a trained one": (
        ("eq4", "eq4-trained"),
        ("soft", "soft-trained"),
        ("nce", "nce-trained"),
        ("nce-large", "nce-trained-large"),
    ),
    "averaged partner, not a stopped one": (("eq4", "eq4-stopped"), ("soft", "soft-stopped")),
    "tau .5, not .99": (("eq4", "eq4-slow"), ("soft", "soft-slow")),
    "small view": (("eq4", "eq4-no-small"), ("soft", "soft-no-small"), ("nce-trained", "nce-trained-no-small")),
    "larger batch, larger rate": (
        ("eq4-large", "eq4"),
        ("soft-large", "soft"),
        ("nce-large", "nce"),
        ("nce-trained-large", "nce-trained"),
    ),
}
"""A part → pairs of cells with it and without it, which differ in nothing else."""
TITLE = "What each part is worth"
COLUMNS: Columns = (
    ("cell", lambda row: row.variant.label),
    ("seeds", lambda row: str(len(row.results))),
    ("batch", lambda row: str(row.variant.recipe.batch_size)),
    ("forwards", lambda row: f"{row.variant.forwards:.0f}"),
    ("minutes", lambda row: f"{row.mean('minutes'):.1f}"),
    *LINEAR_COLUMNS,
    *KNN_COLUMNS,
    ("mined", lambda row: f"{row.mean('mined'):.1%}"),
)
LEGEND = (
    "Forwards: what a run spends on an image over all epochs, in forwards of the encoder. Minutes: of training, per "
    "run. Control: a random encoder of the same shape. Mined: share of the pairs of a batch, as logged last. An effect "
    "is a mean of differences in points, over pairs of cells and then over seeds, with its 95 % confidence interval "
    "(Student's t over seeds)."
)


def run_parts(options: Ablate, command: str) -> int | None:
    """Train and evaluate every cell; returns the signal that stopped it, or None at the end."""
    if options.points is not None:
        raise UserError("points: the cells of `parts` are evaluated at their end only; leave it out")
    recipe, device = base_recipe(options), pick_device(options.device)
    images = open_labelled(recipe.data, recipe.image_size, options)
    facts, recipes = images.facts(), cell_recipes(options)
    print("measuring what each cell costs", flush=True)
    costs = {name: forward_equivalents(one, images, device=device) for name, one in recipes.items()}
    budget = recipe.epochs * forward_equivalents(recipe, images, device=device)
    jobs = part_jobs(options, part_variants(recipes, costs, budget), len(images))
    shown = images.tested_at(recipe.tested_pixels).facts()
    scores = RunScores(facts, options.on, options.data_root, device, skip_broken=options.skip_broken, shown=shown)
    return run_sweep(options, jobs, scores, partial(parts_output, options, command, facts, jobs))


def chosen_cells(options: Ablate) -> list[str]:
    """All, or those asked for."""
    for name in options.only:
        if name not in CELLS:
            raise UserError(f"only: there is no cell {name!r}{nearest(name, CELLS)}")
    return [name for name in CELLS if not options.only or name in options.only]


def cell_recipes(options: Ablate) -> dict[str, Recipe]:
    """Each cell's, as long as the recipe."""
    base = base_recipe(options)
    recipes = {}
    for name in chosen_cells(options):
        cell = CELLS[name]
        made = replace(base, settings={**base.settings, **cell.settings})
        if cell.larger_batch:
            made = replace(
                made, batch_size=LARGER_BATCH * base.batch_size, learning_rate=LARGER_RATE * base.learning_rate
            )
        recipes[name] = made
    return recipes


def part_variants(recipes: Mapping[str, Recipe], costs: Mapping[str, float], budget: float) -> list[Variant]:
    """All cells, with as many epochs as spend the budget, in forwards per image."""
    return [
        Variant(name, CELLS[name].label, replace(recipe, epochs=epochs_within(budget, costs[name])), cost=costs[name])
        for name, recipe in recipes.items()
    ]


def epochs_within(budget: float, cost: float) -> int:
    """At least one; a few operations of the loss more or less cost nobody an epoch."""
    return max(1, math.floor(budget / cost + 0.05))


def part_jobs(options: Ablate, variants: Sequence[Variant], images: int) -> list[Job]:
    """Seeds outermost; cells that carry a claim have two more."""
    jobs = plan_jobs(variants, seeds=options.seeds + MORE_SEEDS, out=options.out, images=images)
    return [job for job in jobs if job.seed < options.seeds or CELLS[job.variant.name].claim]


def effects(rows: Sequence[Summary], score: str) -> list[Effect]:
    """Of all parts whose cells have been trained; each over the seeds that all of its cells have."""
    values = {row.variant.name: {result.seed: float(getattr(result, score)) for result in row.results} for row in rows}
    found = []
    for label, pairs in EFFECTS.items():
        there = tuple(pair for pair in pairs if pair[0] in values and pair[1] in values)
        common = (
            set.intersection(*(values[name].keys() & values[other].keys() for name, other in there)) if there else ()
        )
        per_seed = [statistics.fmean(values[a][seed] - values[b][seed] for a, b in there) for seed in sorted(common)]
        if per_seed:
            found.append(Effect(label, there, tuple(per_seed)))
    return found


def effects_table(rows: Sequence[Summary]) -> Lines:
    """A line for each part."""
    both = zip(effects(rows, "linear"), effects(rows, "knn"), strict=True)
    lines = [
        [linear.label, str(len(linear.pairs)), str(len(linear.seeds)), str(linear), str(knn)] for linear, knn in both
    ]
    return [["part", "pairs", "seeds", "linear", "knn"], *lines]


def parts_output(
    options: Ablate, command: str, facts: dict[str, Any], jobs: Sequence[Job], results: Mapping[Path, Result]
) -> Output:
    """Table, figure and all values, as far as there are results."""
    recipe, stem = base_recipe(options), options.out / "parts"
    about = Setup(
        **setup_now(options, command, facts, len(jobs), len(results)), conditions=given_conditions(options, recipe)
    )
    rows = summarise(jobs, results)
    by_score = {score: effects(rows, score) for score in ("linear", "knn")}
    values = {
        **asdict(about),
        "recipe": recipe.name,
        "effects": {score: [_effect_values(one) for one in found] for score, found in by_score.items()},
        "rows": [_row_values(row) for row in rows],
    }
    intro = [f"Equal for all: {about.equal}. All other settings: {recipe.name}.", about.measured]
    more = ("Effects, in points:", effects_table(rows))
    words = f"{about.equal}{f'; {about.state}' if about.state else ''}"
    return Output(
        values=(Path(f"{stem}.json"), values),
        page=(Path(f"{stem}.md"), Page(TITLE, intro, table_of(rows, COLUMNS), LEGEND, [], command, more)),
        figure=(Path(f"{stem}.png"), lambda: draw_effects(TITLE, words, by_score)),
    )


def _effect_values(one: Effect) -> dict[str, Any]:
    return {**asdict(one), "mean": one.mean, "margin": one.margin}


def _row_values(row: Summary) -> dict[str, Any]:
    """The means and deviations, and every seed's values below them."""
    variant = row.variant
    about = {"name": variant.name, "label": variant.label, "settings": dict(CELLS[variant.name].settings)}
    length = {"epochs": variant.recipe.epochs, "cost": variant.cost, "forwards": variant.forwards}
    seeds = [
        result.to_json(("seed", "run", "minutes", *SCORES, "last_loss", "mined", "rank")) for result in row.results
    ]
    return {**about, **length, **row.to_json(*SCORES, "minutes", "mined"), "seeds": seeds}
