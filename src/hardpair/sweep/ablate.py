"""`hardpair ablate`: for each of the paper's ablations, a recipe of HNPM with one setting changed as the variants."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hardpair.errors import UserError
from hardpair.recipes import RECIPES, Recipe, find_recipe
from hardpair.sweep.ablate_options import Ablate, Which
from hardpair.sweep.claims import BASE, CHANGES, FIGURE_2, PUBLISHED, SETTLED, published, verdict
from hardpair.sweep.figures import draw_ablation
from hardpair.sweep.results import SCORES, Result, Summary, summarise
from hardpair.sweep.run_scores import RunScores
from hardpair.sweep.runner import run_sweep
from hardpair.sweep.tables import Output, Page, Setup, setup_now
from hardpair.sweep.variants import Job, Variant, given_conditions, open_labelled, plan_jobs, under_conditions
from hardpair.train import pick_device
from hardpair.words import several

METHOD = "hnpm"
USUAL_POINTS = 5
TITLES: Mapping[Which, str] = {
    "tau": "Ablation: how much of the old student is kept (tau)",
    "mining": "Ablation: hard negative pairs, or all pairs",
    "gradient": "Ablation: the student's gradient blocked, or not",
}
HEADINGS = ("variant", "seeds", "linear top-1", "control", "knn top-1", "control", "loss", "mined", "rank")
LEGEND = (
    "Control: a random encoder of the same shape. Loss, mined (share of the pairs of a batch) and rank (effective, of "
    "the features): as logged last. Two variants count as told apart where their difference, seed by seed, has a mean "
    "above its standard deviation."
)
OTHER_PAIRS = (
    "The loss is not the same sum for both: without mining it has more negative pairs, which alone makes it lower."
)


def run_ablation(options: Ablate, command: str) -> int | None:
    """Train and evaluate every variant; returns the signal that stopped it, or None at the end."""
    recipe, device = base_recipe(options), pick_device(options.device)
    images = open_labelled(recipe.data, recipe.image_size, on=options.on, root=options.data_root)
    facts = images.facts()
    jobs = plan_jobs(ablation_variants(options), seeds=options.seeds, out=options.out, images=len(images))
    scores = RunScores(facts, options.on, options.data_root, device)

    def output(results: Mapping[Path, Result]) -> Output:
        return ablation_output(options, command, facts, jobs, results)

    return run_sweep(jobs, scores, output, data_root=options.data_root, device=options.device)


def base_recipe(options: Ablate) -> Recipe:
    """The recipe asked for, under the conditions given, with what the paper settles on."""
    named = find_recipe(options.recipe)
    if named.method != METHOD:
        known = ", ".join(name for name, recipe in RECIPES.items() if recipe.method == METHOD)
        raise UserError(f"recipe: {named.name} is of {named.method}, and the ablations are of {METHOD}: give {known}")
    recipe = under_conditions(named, given_conditions(options, named))
    epochs = recipe.epochs if options.epochs is None else options.epochs
    return dataclasses.replace(recipe, epochs=epochs, settings={**recipe.settings, **SETTLED})


def ablation_variants(options: Ablate) -> list[Variant]:
    """The base, and what differs from it in one setting."""
    base = base_recipe(options)
    return [
        Variant(
            name,
            label,
            dataclasses.replace(base, settings={**base.settings, **changes}),
            evaluated_epochs(options, name, base.epochs),
        )
        for name, (label, changes) in CHANGES[options.which].items()
    ]


def evaluated_epochs(options: Ablate, name: str, epochs: int) -> tuple[int, ...]:
    """Equally spaced, the last one among them. The base always has its curve: the other ablations will show it."""
    end_only = options.which == "tau" and name != BASE
    points = options.points or (1 if end_only else min(USUAL_POINTS, epochs))
    if points > epochs:
        raise UserError(f"points: {points} are more than the {epochs} epochs; give fewer points, or more epochs")
    return tuple(epochs * place // points for place in range(1, points + 1))


@dataclass(frozen=True, kw_only=True)
class Ablation(Setup):
    """What was held equal among variants."""

    which: Which
    recipe: str
    epochs: int

    @property
    def title(self) -> str:
        """What was held equal, in a line."""
        return f"{self.equal}, {several(self.epochs, 'epoch')}"


def ablation_output(
    options: Ablate, command: str, facts: dict[str, Any], jobs: Sequence[Job], results: Mapping[Path, Result]
) -> Output:
    """Table, figure and all values, as far as there are results."""
    recipe, stem = base_recipe(options), options.out / options.which
    about = Ablation(
        **setup_now(options, command, facts, len(jobs), len(results)),
        conditions=given_conditions(options, recipe),
        which=options.which,
        recipe=recipe.name,
        epochs=recipe.epochs,
    )
    rows = summarise(jobs, results)
    values = {**asdict(about), "finding": finding(about, rows), "rows": [row_values(about, row) for row in rows]}
    words = f"{about.title}{f'; {about.state}' if about.state else ''}"
    labels = [_name(row) for row in rows]
    return Output(
        values=(Path(f"{stem}.json"), values),
        page=(Path(f"{stem}.md"), ablation_page(about, rows)),
        figure=(Path(f"{stem}.png"), lambda: draw_ablation(TITLES[about.which], words, rows, labels)),
    )


def row_values(about: Ablation, row: Summary) -> dict[str, Any]:
    """The means and deviations, the curves, and every seed's values below them."""
    name, label = row.variant.name, row.variant.label
    curves = {
        score: [{"epoch": epoch, **figure.to_json()} for epoch, figure in row.curve(score)]
        for score in ("loss", "linear", "knn")
    }
    return {
        "name": name,
        "label": label,
        "changes": CHANGES[about.which][name][1],
        **row.to_json(*SCORES, "loss", "mined", "rank"),
        "curves": curves,
        "seeds": [
            result.to_json(("seed", "run", "points", "losses", "loss", "mined", "rank")) for result in row.results
        ],
        "published": published(about.which).get(name),
    }


def ablation_page(about: Ablation, rows: Sequence[Summary]) -> Page:
    """The table, with the published figures where there are any, and whether the paper's order holds."""
    figures = published(about.which)
    intro = [f"Equal for all: {about.title}. All other settings: {about.recipe}.", about.measured]
    lines = [[*HEADINGS, *[PUBLISHED] * bool(figures)]]
    lines += [[*_cells(row), *([figures[row.variant.name]] if figures else [])] for row in rows]
    notes = {"tau": [], "mining": [FIGURE_2, OTHER_PAIRS], "gradient": [FIGURE_2]}[about.which]
    notes = [*notes, *(note for row in rows for note in _missed(row)), *finding(about, rows)]
    return Page(TITLES[about.which], intro, lines, LEGEND, notes, about.command)


def finding(about: Ablation, rows: Sequence[Summary]) -> list[str]:
    """Whether the paper's order holds, once there is nothing left to run."""
    return [verdict(about.which, rows)] if about.runs_done == about.runs else []


def _name(row: Summary) -> str:
    return f"{row.variant.label}{' (base)' * (row.variant.name == BASE)}"


def _cells(row: Summary) -> list[str]:
    return [
        _name(row),
        str(len(row.results)),
        f"{row.figure('linear'):.1f}",
        f"{row.mean('linear_control'):.1f}",
        f"{row.figure('knn'):.1f}",
        f"{row.mean('knn_control'):.1f}",
        f"{row.mean('loss'):.3f}",
        f"{row.mean('mined'):.1%}",
        f"{row.mean('rank'):.1f}",
    ]


def _missed(row: Summary) -> list[str]:
    """A finished run cannot be evaluated as it was earlier."""
    there = {epoch for epoch, _ in row.curve("linear")}
    epochs = ", ".join(str(epoch) for epoch in row.variant.evaluated if epoch not in there)
    late = f"{row.variant.label}: some run had been trained further before it was to be evaluated after epoch {epochs}."
    return [late] if epochs else []
