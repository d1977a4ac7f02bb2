"""`hardpair compare`: methods as the variants of a sweep, under the same conditions and at the same budgets."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hardpair.errors import UserError, nearest
from hardpair.methods import METHODS, resolve_method
from hardpair.recipes import FAMILIES, SUPERVISED, Recipe, find_recipe, tested_side
from hardpair.sweep.figures import draw_comparison
from hardpair.sweep.options import SHARED, Compare
from hardpair.sweep.results import IN_COMPARISON, SCORES, SEMI, Result, Summary, read_known, summarise
from hardpair.sweep.run_scores import RunScores
from hardpair.sweep.runner import run_sweep
from hardpair.sweep.tables import (
    KNN_COLUMNS,
    LINEAR_COLUMNS,
    Column,
    Columns,
    Lines,
    Output,
    Page,
    Setup,
    setup_now,
    table_of,
)
from hardpair.sweep.variants import Job, Variant, given_conditions, open_labelled, plan_jobs, under_conditions
from hardpair.text import several
from hardpair.train import pick_device
from hardpair.train.cost import forward_equivalents

COLUMNS: Columns = (
    ("epochs", lambda row: str(row.variant.recipe.epochs)),
    ("forwards", lambda row: f"{row.variant.forwards:.0f}"),
    ("minutes", lambda row: f"{row.mean('minutes'):.1f}"),
    *LINEAR_COLUMNS,
    ("gain", lambda row: f"{row.mean('linear') - row.mean('linear_control'):+.1f}"),
    *KNN_COLUMNS,
    ("loss", lambda row: f"{row.mean('first_loss'):.3f} → {row.mean('last_loss'):.3f}"),
)
LEGEND = (
    "Forwards: what a run spends on an image over all epochs, in forwards of the encoder. Minutes: of training, per "
    "run. Control: a random encoder of the same shape. Gain: linear top-1 above it, in points. Loss: after the first "
    "epoch and at the end."
)
DIVERGED = "–"  # fine-tuning a random encoder may
FEW = "The whole network fine-tuned with a share of the labels (protocol semi), top-1:"
SEEN = "Supervised training has seen the labels of the validation images: its scores here measure nothing."


def compare_methods(options: Compare, command: str) -> int | None:
    """Train and evaluate every method; returns the signal that stopped it, or None at the end."""
    methods, device = chosen_methods(options), pick_device(options.device)
    shared = shared_conditions(options)
    images = open_labelled(shared["data"], shared["image_size"], options)
    facts = images.facts()
    known = read_known(options.known, on=options.on, facts=facts)
    print("measuring what each method costs", flush=True)
    costs = measure_costs(options, methods, lambda recipe: forward_equivalents(recipe, images, device=device))
    variants = comparison_variants(options, costs)
    jobs = plan_jobs(variants, seeds=options.seeds, out=options.out, images=len(images))
    size = tested_side(shared["image_size"], shared["view_size"], small_images=shared["small_images"])
    scores = RunScores(
        facts,
        options.on,
        options.data_root,
        device,
        options.labels,
        known,
        skip_broken=options.skip_broken,
        shown=images.tested_at(size).facts(),
    )
    return run_sweep(options, jobs, scores, partial(comparison_output, options, command, facts, jobs))


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
            hint = nearest(word, [*known, "all"])
            raise UserError(f"methods: there is no {word!r}{hint}; your own is path/to/file.py:CLASS")
    return known if "all" in words else list(dict.fromkeys(words))


def shared_conditions(options: Compare) -> dict[str, Any]:
    """What was given, and for the rest what the family's HNPM has; a batch that was not given is each method's own."""
    shared = given_conditions(options, find_recipe(options.family))
    return shared if options.batch_size is not None else {name: shared[name] for name in SHARED}


def measure_costs(options: Compare, methods: Sequence[str], cost_of: Callable[[Recipe], float]) -> dict[str, float]:
    """Forwards per image of each method; any method that cannot work under these conditions shows here."""
    costs = {}
    for method in methods:
        try:
            costs[method] = cost_of(_recipe_of(options, method))
        except UserError as error:
            raise UserError(f"{method}: {error}") from error
    return costs


def comparison_variants(options: Compare, costs: Mapping[str, float]) -> list[Variant]:
    """Every method at every budget; cheap budgets first."""
    return [
        _variant(options, method, budget, cost)
        for budget in sorted(set(options.budget))
        for method, cost in costs.items()
    ]


def _variant(options: Compare, method: str, budget: int, cost: float) -> Variant:
    """A warm-up keeps its share of the epochs."""
    recipe = _recipe_of(options, method)
    epochs = budget if options.unit == "epochs" else max(1, int(budget / cost))
    warmup = recipe.warmup_epochs * epochs / recipe.epochs
    recipe = dataclasses.replace(recipe, epochs=epochs, warmup_epochs=warmup)
    return Variant(f"{method}-b{budget}", method, recipe, budget=budget, cost=cost)


def _recipe_of(options: Compare, method: str) -> Recipe:
    return under_conditions(find_recipe(f"{options.family}/{method}"), shared_conditions(options))


@dataclass(frozen=True, kw_only=True)
class Comparison(Setup):
    """What was held equal among methods."""

    family: str
    methods: tuple[str, ...]
    labels: tuple[float, ...]  # shares of the labels that encoders were fine-tuned with
    unit: str
    budgets: tuple[int, ...]
    known: dict[str, int]  # earlier comparison → how many of the runs are from there

    @property
    def title(self) -> str:
        """What was held equal, in a line."""
        *most, last = map(str, self.budgets)
        budgets = f"{', '.join(most)} or {last}" if most else last
        unit = "epoch" if self.unit == "epochs" else "forward"
        return f"{self.equal}, {budgets} {unit}{'s' * (budgets != '1')}{' per image' * (self.unit == 'forwards')}"


def comparison_output(
    options: Compare, command: str, facts: dict[str, Any], jobs: Sequence[Job], results: Mapping[Path, Result]
) -> Output:
    """Table, figure and all values, as far as there are results."""
    batches = {job.variant.label: job.recipe.batch_size for job in jobs}
    about = Comparison(
        **setup_now(options, command, facts, len(jobs), len(results)),
        conditions={**shared_conditions(options), "batch_size": batches},
        family=options.family,
        methods=tuple(chosen_methods(options)),
        labels=options.labels,
        unit=options.unit,
        budgets=tuple(sorted(set(options.budget))),
        known=dict(Counter(result.source for result in results.values() if result.source)),
    )
    rows = sorted(summarise(jobs, results), key=lambda row: (row.variant.budget, -row.mean("linear")))
    words = f"{about.title}{f'; {about.state}' if about.state else ''}"
    return Output(
        values=(options.out / "compare.json", {**asdict(about), "rows": [row_values(row) for row in rows]}),
        page=(options.out / "table.md", comparison_page(about, rows)),
        figure=(options.out / "figure.png", lambda: draw_comparison(words, rows, about.methods)),
    )


def row_values(row: Summary) -> dict[str, Any]:
    """The means and deviations, and every seed's values below them."""
    variant = row.variant
    about = {"method": variant.label, "budget": variant.budget, "epochs": variant.recipe.epochs, "cost": variant.cost}
    few = {f"{share:g}": row.semi(share) for share in row.results[0].semi}
    semi = {
        name: {share: both[name].to_json() for share, both in few.items() if name in both} for name in SEMI * bool(few)
    }
    figures = row.to_json(*SCORES, "minutes", "first_loss", "last_loss")
    seeds = [result.to_json(IN_COMPARISON) for result in row.results]
    return {**about, "forwards": variant.forwards, **figures, **semi, "seeds": seeds}


def comparison_page(about: Comparison, rows: Sequence[Summary]) -> Page:
    """The table, and that of few labels where they were asked for."""
    settings = f"Optimiser and settings: {about.family}/METHOD, or the method's defaults."
    intro = [f"Conditions: {about.title}. {settings}", about.measured]
    if about.known:
        parts = [f"{several(count, 'run')} of {source}" for source, count in about.known.items()]
        intro.append(f"Known from earlier comparisons: {', '.join(parts)}.")
    if SUPERVISED in about.methods and about.on == "validation":
        intro.append(SEEN)
    budget: Columns = (("budget", lambda row: str(row.variant.budget)),) if len(about.budgets) > 1 else ()
    columns: Columns = (("method", lambda row: _name(row, about.seeds)), *budget, *COLUMNS)
    more = (FEW, _few_labels(about, rows)) if about.labels else None
    title = "Methods under the same conditions"
    return Page(title, intro, table_of(rows, columns), LEGEND, _overspent(about, rows), about.command, more)


def _overspent(about: Comparison, rows: Sequence[Summary]) -> list[str]:
    """Who could not keep to a budget of compute, because one epoch alone costs more."""
    costs = {row.variant.label: row.variant.cost for row in rows if (row.variant.cost or 0) > row.variant.budget}
    return [
        f"{method} is over its budget: one epoch costs {cost:.0f} forwards."
        for method, cost in costs.items()
        if about.unit == "forwards"
    ]


def _few_labels(about: Comparison, rows: Sequence[Summary]) -> Lines:
    def cell(row: Summary, share: float, name: str) -> str:
        return f"{row.semi(share)[name]:.1f}" if name in row.semi(share) else DIVERGED

    columns: list[Column] = [("method", lambda row: _name(row, about.seeds)), COLUMNS[1]]
    for share in about.labels:
        columns.append((f"{share * 100:g} % of the labels", partial(cell, share=share, name="semi")))
        columns.append(("control", partial(cell, share=share, name="semi_control")))
    return table_of([row for row in rows if any(row.semi(share) for share in about.labels)], columns)


def _name(row: Summary, seeds: int) -> str:
    done, method = len(row.results), row.variant.label
    return method if done == seeds else f"{method} ({done} of {seeds} seeds)"
