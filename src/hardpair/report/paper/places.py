"""Which cells of the paper's tables a score fills."""

from dataclasses import dataclass

from hardpair.report.files import Record, mapping
from hardpair.report.paper.published import TABLES
from hardpair.report.paper.scale import shape_of
from hardpair.report.words import numeric

COLUMN_SETTINGS = {"semi": {"labels"}, "distill": {"labels"}, "transfer": {"set", "form", "metric"}}
"""Settings of a score that say in which column it stands, by protocol."""

_OTHER_ENCODERS = {row.shape for table in TABLES for row in table.rows if row.about} - {("resnet50", 1.0, False)}
_SHARES = {0.01: "1 %", 0.1: "10 %"}
_METRICS = {"top1": "Top-1", "top5": "Top-5"}
_FORMS = {"linear": 5, "finetune": 6}
_SETS = {
    "food101": ("Food101", "top1"),
    "cifar10": ("CIFAR-10", "top1"),
    "sun397": ("SUN397", "top1"),
    "cars": ("Cars", "top1"),
    "pets": ("Pets", "mean_per_class"),
    "voc2007": ("VOC 2007", "map11"),
    "flowers102": ("Flowers", "mean_per_class"),
}


@dataclass(frozen=True)
class Place:
    """A column of a table, and the metric that belongs there."""

    table: int
    column: str
    metric: str


def places(recipe: Record, score: Record) -> list[Place]:
    """Where the score belongs; nowhere for a protocol, a share of labels or a set that the paper does not have."""
    settings = mapping(score.get("settings"))
    others = shape_of(recipe, score) in _OTHER_ENCODERS
    match score.get("protocol"):
        case "linear":
            top = [Place(2 if others else 1, title, metric) for metric, title in _METRICS.items()]
            return top + _by_tau(recipe)
        case "semi":
            return _by_share(4 if others else 3, settings)
        case "distill":  # the paper has it in one table only
            return _by_share(4, settings)
        case "transfer":
            return _by_set(settings)
    return []


def _by_share(table: int, settings: Record) -> list[Place]:
    share = _SHARES.get(numeric(settings.get("labels")) or 0.0)
    return [Place(table, f"{title} ({share})", metric) for metric, title in _METRICS.items()] if share else []


def _by_set(settings: Record) -> list[Place]:
    """One cell of Table 5 or 6; a set judged by another metric than BYOL's would not be comparable."""
    table = _FORMS.get(str(settings.get("form")))
    column, metric = _SETS.get(str(settings.get("set")), ("", ""))
    return [Place(table, column, metric)] if table and column and settings.get("metric") == metric else []


def _by_tau(recipe: Record) -> list[Place]:
    tau = numeric(mapping(recipe.get("settings")).get("tau"))
    return [Place(7, str(tau), "top1")] if recipe.get("method") == "hnpm" and tau is not None else []
