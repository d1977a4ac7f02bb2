"""The paper's ablations: what each changes, what the paper found, and whether the same holds here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from hardpair.recipes import Setting
from hardpair.report.paper.published import TABLES
from hardpair.sweep.ablate_options import Which
from hardpair.sweep.results import OverSeeds, Summary

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
