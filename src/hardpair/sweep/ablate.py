"""`hardpair ablate`: a recipe of HNPM with one setting changed, as variants of a sweep; and what the paper found."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

from hardpair.errors import UserError
from hardpair.recipes import RECIPES, Recipe, Setting, find_recipe
from hardpair.report.paper.published import TABLES
from hardpair.sweep.figures import draw_ablation
from hardpair.sweep.options import Ablate, Which
from hardpair.sweep.results import SCORES, OverSeeds, Result, Summary, summarise
from hardpair.sweep.run_scores import RunScores
from hardpair.sweep.runner import run_sweep
from hardpair.sweep.tables import KNN_COLUMNS, LINEAR_COLUMNS, Columns, Output, Page, Setup, setup_now, table_of
from hardpair.sweep.variants import Job, Variant, given_conditions, open_labelled, plan_jobs, under_conditions
from hardpair.text import several
from hardpair.train import pick_device

METHOD = "hnpm"
SETTLED: Mapping[str, Setting] = {"tau": 0.5, "mine": True, "block_student_gradient": True}
"""What the paper settles on."""
BASE = "base"
CHANGES: Mapping[Which, Mapping[str, tuple[str, Mapping[str, Setting]]]] = {
    "tau": {
        BASE: ("tau 0.5", {}),
        "tau-1": ("tau 1", {"tau": 1.0}),
        "tau-0.999": ("tau 0.999", {"tau": 0.999}),
        "tau-0": ("tau 0", {"tau": 0.0}),
    },
    "mining": {BASE: ("with mining", {}), "no-mining": ("without mining", {"mine": False})},
    "gradient": {
        BASE: ("gradient blocked", {}),
        "student-gradient": ("student gradient", {"block_student_gradient": False}),
    },
}
"""Name of a variant → its label and what it changes. The base is first and in every folder of runs, so that another
recipe shows at once."""
PUBLISHED = "published, ImageNet, ResNet-50"
"""Heading of Table 7's figures."""

FIGURE_2 = "The paper shows this as curves without figures (its Figure 2: ResNet-200 of width 2 on ImageNet)."
USUAL_POINTS = 5
TITLES: Mapping[Which, str] = {
    "tau": "Ablation: how much of the old student is kept (tau)",
    "mining": "Ablation: hard negative pairs, or all pairs",
    "gradient": "Ablation: the student's gradient blocked, or not",
}
COLUMNS: Columns = (
    ("seeds", lambda row: str(len(row.results))),
    *LINEAR_COLUMNS,
    *KNN_COLUMNS,
    ("loss", lambda row: f"{row.mean('loss'):.3f}"),
    ("mined", lambda row: f"{row.mean('mined'):.1%}"),
    ("rank", lambda row: f"{row.mean('rank'):.1f}"),
)
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
    images = open_labelled(recipe.data, recipe.image_size, options)
    facts = images.facts()
    jobs = plan_jobs(ablation_variants(options), seeds=options.seeds, out=options.out, images=len(images))
    shown = images.tested_at(recipe.tested_pixels).facts()
    scores = RunScores(facts, options.on, options.data_root, device, skip_broken=options.skip_broken, shown=shown)
    return run_sweep(options, jobs, scores, partial(ablation_output, options, command, facts, jobs))


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
    beside: Columns = ((PUBLISHED, lambda row: figures[row.variant.name]),) if figures else ()
    notes = {"tau": [], "mining": [FIGURE_2, OTHER_PAIRS], "gradient": [FIGURE_2]}[about.which]
    notes = [*notes, *(note for row in rows for note in _missed(row)), *finding(about, rows)]
    return Page(
        TITLES[about.which],
        intro,
        table_of(rows, (("variant", _name), *COLUMNS, *beside)),
        LEGEND,
        notes,
        about.command,
    )


def finding(about: Ablation, rows: Sequence[Summary]) -> list[str]:
    """Whether the paper's order holds, once there is nothing left to run."""
    return [verdict(about.which, rows)] if about.runs_done == about.runs else []


def _name(row: Summary) -> str:
    return f"{row.variant.label}{' (base)' * (row.variant.name == BASE)}"


def _missed(row: Summary) -> list[str]:
    """A finished run cannot be evaluated as it was earlier."""
    there = {epoch for epoch, _ in row.curve("linear")}
    epochs = ", ".join(str(epoch) for epoch in row.variant.evaluated if epoch not in there)
    late = f"{row.variant.label}: some run had been trained further before it was to be evaluated after epoch {epochs}."
    return [late] if epochs else []


@dataclass(frozen=True)
class Claim:
    """An order of the variants that the paper reports, best first."""

    figure: str
    words: str
    digits: str
    order: tuple[str, ...]
    sign: int = 1  # -1 where less is better

    def gap(self, better: Summary, worse: Summary) -> OverSeeds:
        """How far the one is better than the other, seed by seed: of one seed, both began with the same weights."""
        pairs = zip(better.figure(self.figure).values, worse.figure(self.figure).values, strict=True)
        return OverSeeds(tuple(self.sign * (one - other) for one, other in pairs))

    def tells_apart(self, one: Summary, other: Summary) -> bool:
        """Whether they differ by more than their difference does over seeds."""
        gap = self.gap(one, other)
        return abs(gap.mean) > (gap.std or 0.0)


def published(which: Which) -> dict[str, str]:
    """Variant → the figure of Table 7, as it was printed; Figure 2 has no figures."""
    if which != "tau":
        return {}
    (table,) = (table for table in TABLES if table.number == 7)
    by_tau = dict(zip(map(float, table.columns), table.rows[0].figures, strict=True))
    taus = {name: {**SETTLED, **changes}["tau"] for name, (_, changes) in CHANGES["tau"].items()}
    return {name: by_tau[float(tau)] for name, tau in taus.items()}


def claims(which: Which) -> list[Claim]:
    """Table 7 orders tau; of Figure 2 the text says: higher accuracy and lower loss than with either thing changed."""
    figures = published(which)
    names = CHANGES[which]  # the base first
    order = tuple(sorted(names, key=lambda name: -float(figures[name])) if figures else names)
    accuracy = Claim("linear", "linear top-1", ".1f", order)
    return [accuracy] if figures else [accuracy, Claim("loss", "loss", ".3f", order, sign=-1)]


def verdict(which: Which, rows: Sequence[Summary]) -> str:
    """One sentence: does what the paper reports hold here? Needs a row for every variant."""
    by_name = {row.variant.name: row for row in rows}
    parts = [
        f"the paper's order in {_outcome(claim, [by_name[name] for name in claim.order])}" for claim in claims(which)
    ]
    single = " (one seed, so no spread is known)" if any(len(row.results) == 1 for row in rows) else ""
    sentence = "; ".join(parts) + single
    return f"{sentence[0].upper()}{sentence[1:]}."


def _outcome(claim: Claim, rows: Sequence[Summary]) -> str:
    """The claim, what has become of it, and the figures."""
    order = (" > " if claim.sign > 0 else " < ").join(row.variant.label for row in rows)
    ranked = sorted(rows, key=lambda row: -claim.sign * row.figure(claim.figure).mean)
    measured = ", ".join(f"{row.variant.label} {row.figure(claim.figure):{claim.digits}}" for row in ranked)
    return f"{claim.words} ({order}) {_finding(claim, rows)}: {measured}{_unclear(claim, rows)}"


def _finding(claim: Claim, rows: Sequence[Summary]) -> str:
    pairs = list(combinations(rows, 2))  # (better, worse) in the paper
    if any(claim.gap(*pair).mean < 0 and claim.tells_apart(*pair) for pair in pairs):
        return "does not hold here"
    if any(claim.gap(*pair).mean <= 0 for pair in pairs):
        return "can be neither confirmed nor refuted here"
    return "holds here" if all(claim.tells_apart(*pair) for pair in pairs) else "holds here by the means alone"


def _unclear(claim: Claim, rows: Sequence[Summary]) -> str:
    """Which differ by no more than their difference does over seeds."""
    pairs = list(combinations(rows, 2))
    unclear = [pair for pair in pairs if not claim.tells_apart(*pair)]
    if len(unclear) == len(pairs):
        return " (not told apart by these seeds)"
    words = ", ".join(f"{one.variant.label} and {other.variant.label}" for one, other in unclear)
    return f" (not told apart by these seeds: {words})" if unclear else ""
