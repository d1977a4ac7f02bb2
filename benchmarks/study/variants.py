"""What is varied, group by group.

Every variant changes a recipe of the demo, demo/hnpm where not said otherwise, with views of full size and a learning
rate of .001 and a batch of 160, in the fields and settings it names.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from trial import SimCLRSmall, Trial, smaller

from hardpair.methods import METHODS
from hardpair.recipes import Recipe, find_recipe
from hardpair.recipes.demo import WORKING
from hardpair.views import POLICIES

METHODS["simclrsmall"] = SimCLRSmall
METHODS["trial"], METHODS["trial24"] = Trial, smaller(Trial, 24)
for _name in ("hnpm", "simclr", "moco", "byol", "simsiam"):
    METHODS[f"{_name}24"] = smaller(METHODS[_name], 24)
for _percent in (8, 50, 80):
    POLICIES[f"balanced{_percent}"] = replace(POLICIES["balanced"], crop=(_percent / 100, 1.0))
POLICIES["part"] = replace(POLICIES["balanced"], crop=(0.05, 0.5))

DATA, EPOCHS = "cifar10:10000", 8
BEFORE: dict[str, dict[str, Any]] = {
    "demo/hnpm": {
        "head_hidden": 512,
        "head_outputs": 128,
        "teacher_view": "balanced",
        "student_view": "balanced",
        "alpha_pos": 1.0,
        "alpha_neg": 1.0,
        "threshold": 1.2,
        "norm": "l2",
    },
    "demo/simclr": {"view": "balanced", "temperature": 0.2, "head_hidden": 512},
    "demo/moco": {
        "view": "balanced",
        "head_hidden": 512,
        "queue": 1024,
        "momentum": 0.99,
        "temperature": 0.1,
        "symmetric": True,
    },
    "demo/byol": {**find_recipe("demo/byol").settings, "momentum": 0.99},
    "demo/simsiam": {**find_recipe("demo/simsiam").settings},
}
"""Settings of the recipes when the study began. What it finds changes the recipes, but not what a variant means."""


@dataclass(frozen=True)
class Variant:
    """A name for the table, and what it changes; where that is the method, the settings are all that are given."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    base: str = "demo/hnpm"

    def recipe(self, seed: int) -> Recipe:
        """The recipe of a seed."""
        base = find_recipe(self.base)
        other = "method" in self.fields
        settings = {**({} if other else BEFORE[self.base]), **self.settings}
        changes = {
            "data": DATA,
            "epochs": EPOCHS,
            "learning_rate": 1e-3,
            "view_size": 1.0,
            "batch_size": 160,
            **self.fields,
        }
        return replace(base, name="study", seed=seed, settings=settings, **changes)


def trial(name: str, *, epochs: int = EPOCHS, rate: float = 1e-3, **settings: Any) -> Variant:
    """A variant of the method in trial.py."""
    return Variant(name, settings, {"method": "trial", "epochs": epochs, "learning_rate": rate})


def small(name: str, *, batch_size: int = 160, **settings: Any) -> Variant:
    """The same with views of 24 px, the epochs they pay for and a higher learning rate."""
    changes = {"method": "trial24", "epochs": 14, "learning_rate": 2e-3, "batch_size": batch_size}
    return Variant(f"24 px: {name}", settings, changes)


def soft(
    name: str, *, epochs: int = 14, rate: float = 2e-3, more: Mapping[str, Any] | None = None, **settings: Any
) -> Variant:
    """The best of those (soft 0.2, threshold 1.4, both, among teachers), changed."""
    best = {"form": "soft", "softness": 0.2, "threshold": 1.4, "anchors": "both", "among_teachers": True}
    sizes = {"crop_size": 24, "student_size": 24}
    changes = {"method": "trial", "epochs": epochs, "learning_rate": rate, **(more or {})}
    return Variant(f"best: {name}", {**best, **sizes, **settings}, changes)


def simclr(
    name: str, epochs: int = 9, *, size: int | str = 24, more: Mapping[str, Any] | None = None, **settings: Any
) -> Variant:
    """SimCLR with views of so many pixels."""
    changes = {"epochs": epochs, "learning_rate": 2e-3, "method": f"simclr{size}", **(more or {})}
    return Variant(f"simclr: {name}", {**BEFORE["demo/simclr"], **settings}, changes, "demo/simclr")


def small40(name: str, **changes: Any) -> Variant:
    """The best with a small view of the teacher and batches of 40."""
    return soft(f"also 16 px, batch 40, {name}", epochs=10, extra_size=16, more={"batch_size": 40}, **changes)


def rival(method: str, name: str, epochs: int, *, rate: float = 2e-3, batch: int = 80, **settings: Any) -> Variant:
    """Another system with views of 24 px."""
    changes = {"epochs": epochs, "learning_rate": rate, "method": f"{method}24", "batch_size": batch}
    own = {**BEFORE[f"demo/{method}"], **settings}
    return Variant(f"{method} at 24 px: {name}", own, changes, f"demo/{method}")


def fields(name: str, **changes: Any) -> Variant:
    """A variant of the recipe's other fields."""
    return Variant(name, {}, changes)


def now(name: str, **settings: Any) -> Variant:
    """The demo's recipe as the study left it, at half the compute of the others."""
    changes = {"method": "hnpm", "epochs": 5, "learning_rate": 2e-3, "batch_size": 40, "view_size": 0.75}
    return Variant(f"half: {name}", {**WORKING, **settings}, changes)


def now_trial(name: str, *, epochs: int = 5, **changes: Any) -> Variant:
    """The same with a choice that the product does not have."""
    return replace(soft(name, epochs=epochs, extra_size=16, more={"batch_size": 40}, **changes), name=f"half: {name}")


def _map_now() -> Iterator[Variant]:
    for ratio in (0.5, 1.0, 2.0):
        for threshold in (1.0, 1.2, 1.4, 1.8):
            if (ratio, threshold) != (1.0, 1.4):
                yield now(f"alpha ratio {ratio:g}, threshold {threshold:g}", alpha_neg=ratio, threshold=threshold)


def _map_of_eq4() -> Iterator[Variant]:
    for ratio, threshold in ((0.125, 1.0), (0.125, 0.15), (0.5, 0.6), (1.0, 1.0), (1.0, 1.4), (2.0, 2.0)):
        name = f"Eq. 4, alpha ratio {ratio:g}, threshold {threshold:g}"
        yield now(name, softness=0.0, alpha_neg=ratio, threshold=threshold)


GROUPS: dict[str, tuple[Variant, ...]] = {
    "base": (Variant("demo/hnpm"),),
    "rate": (
        *(fields(f"rate {rate:g}", learning_rate=rate) for rate in (3e-4, 2e-3, 4e-3)),
        fields("schedule: steps", schedule="steps"),
        fields("warm-up of one epoch", warmup_epochs=1.0),
        fields("weight decay 1e-4", weight_decay=1e-4),
    ),
    # At the better learning rate.
    "second": (
        trial("rate 0.002, predictor", rate=2e-3, predictor=512),
        trial("rate 0.002, predictor, tau .9", rate=2e-3, predictor=512, tau=0.9),
        trial("rate 0.002, both, among teachers", rate=2e-3, anchors="both", among_teachers=True),
        trial("rate 0.002, head 1024-256", rate=2e-3, head_hidden=1024, head_outputs=256),
        trial("rate 0.002, teacher at 24 px", rate=2e-3, crop_size=24, epochs=12),
    ),
    # Smaller views for all, and the epochs they pay for.
    "sizes": tuple(
        Variant(
            f"{method} at 24 px, rate 0.002",
            BEFORE[f"demo/{method}"],
            {"epochs": epochs, "learning_rate": 2e-3, "method": f"{method}24"},
            f"demo/{method}",
        )
        for method, epochs in (("hnpm", 14), ("simclr", 9))
    ),
    # Mining once more, where all learn faster.
    "small": (
        small("soft 0.2, all", form="soft", softness=0.2, threshold=9.0),
        small("soft 0.4, all", form="soft", threshold=9.0),
        small("soft 0.4, threshold 1.2", form="soft"),
        small("soft 0.4, all, both", form="soft", threshold=9.0, anchors="both"),
        small("soft 0.4, all, both, among teachers", form="soft", threshold=9.0, anchors="both", among_teachers=True),
        small("relative 1.5", rule="relative", threshold=1.5),
        small("nearest 20 %", rule="nearest"),
        small("both, among teachers", anchors="both", among_teachers=True),
    ),
    "together": (
        small(
            "relative 1.5, both, among teachers", rule="relative", threshold=1.5, anchors="both", among_teachers=True
        ),
        small("threshold 1.4, both, among teachers", threshold=1.4, anchors="both", among_teachers=True),
        small("relative 2, both, among teachers", rule="relative", threshold=2.0, anchors="both", among_teachers=True),
        small(
            "soft 0.2, all, both, among teachers",
            form="soft",
            softness=0.2,
            threshold=9.0,
            anchors="both",
            among_teachers=True,
        ),
        small("batch 320", batch_size=320),
        small(
            "soft 0.2, threshold 1.4, both, among teachers",
            form="soft",
            softness=0.2,
            threshold=1.4,
            anchors="both",
            among_teachers=True,
        ),
        Variant(
            "simclr at 24 px, temperature 0.1, rate 0.002",
            {**BEFORE["demo/simclr"], "temperature": 0.1},
            {"epochs": 9, "learning_rate": 2e-3, "method": "simclr24"},
            "demo/simclr",
        ),
        Variant(
            "simclr at 24 px, rate 0.004",
            BEFORE["demo/simclr"],
            {"epochs": 9, "learning_rate": 4e-3, "method": "simclr24"},
            "demo/simclr",
        ),
    ),
    # Around the best of these.
    "third": (
        soft("softness 0.1", softness=0.1),
        soft("teacher 16 px, student 24 px", epochs=24, crop_size=16),
        soft("softness 0.1, teachers alone are anchors", softness=0.1, anchors="teacher"),
        soft("tau 0.9", tau=0.9),
        soft("softness 0.1, threshold 1.2", softness=0.1, threshold=1.2),
        soft("teacher 20 px, student 24 px", epochs=18, crop_size=20),
    ),
    # The trained branch is the dear one: what if it sees a large and a small view, or the student's is smaller?
    "crops": (
        soft("teacher also 16 px", epochs=10, extra_size=16),
        soft("teacher also 16 px, crops of 5 to 50 %", epochs=10, extra_size=16, extra_view="part"),
        soft("teacher 20 px and 16 px", epochs=13, crop_size=20, extra_size=16),
        soft("teacher also 12 px", epochs=12, extra_size=12),
        soft("teacher also twice 16 px", epochs=8, extra_size=16, extras=2),
        soft("teacher also 20 px", epochs=9, extra_size=20),
    ),
    # A wider pool of candidates, of batches that are not long past.
    "queues": (
        soft("batch 80, queue 480", queue=480, more={"batch_size": 80}),
        soft("guard 10 %", guard=0.1),
        soft("batch 80", more={"batch_size": 80}),
        soft("teacher also 16 px, batch 40", epochs=10, extra_size=16, more={"batch_size": 40}),
    ),
    "batches": (
        simclr("24 px, temperature 0.1, batch 40", temperature=0.1, more={"batch_size": 40}),
        soft("teacher also 16 px, batch 20", epochs=10, extra_size=16, more={"batch_size": 20}),
        simclr("24 px, temperature 0.2, batch 40", temperature=0.2, more={"batch_size": 40}),
        soft("batch 40", more={"batch_size": 40}),
    ),
    # Is a small view, or a small batch, all it takes? And once more around the best.
    "why": (
        simclr("also 16 px, batch 40", 7, size="small", temperature=0.1, more={"batch_size": 40}),
        small40("tau 0.9", tau=0.9),
        simclr("also 16 px, batch 80", 7, size="small", temperature=0.1, more={"batch_size": 80}),
        small40("rate 0.001", rate=1e-3),
        small40("threshold 1.2, softness 0.1", threshold=1.2, softness=0.1),
        small40("all, softness 0.2", threshold=9.0),
        small40("tau 0", tau=0.0),
        small40("log of the sum, threshold 1.2", form="log_sum", threshold=1.2),
        small40("student plain", student_view="plain"),
    ),
    # Is it the small view and the small batches alone, with the paper's own Eq. 4?
    "paper": (
        Variant(
            "hnpm with a small view, batch 40: Eq. 4, threshold 1.2",
            {"small_views": 1, "threshold": 1.2},
            {"epochs": 10, "learning_rate": 2e-3, "view_size": 0.75, "batch_size": 40},
        ),
    ),
    # What both share.
    "shared": (
        soft("teacher also 16 px, batch 80", epochs=10, extra_size=16, more={"batch_size": 80}),
        simclr("24 px, temperature 0.1, batch 80", temperature=0.1, more={"batch_size": 80}),
    ),
    "rivals24": (
        rival("moco", "one-sided, batch 80", 14, symmetric=False),
        rival("byol", "rate 0.001, batch 80", 7, rate=1e-3),
        rival("simsiam", "rate 0.001, batch 80", 9, rate=1e-3),
        rival("byol", "batch 80", 7),
        rival("simsiam", "batch 80", 9),
        rival("moco", "batch 80", 7),
        rival("byol", "momentum 0.9, batch 80", 7, momentum=0.9),
        rival("byol", "batch 40", 7, batch=40),
        rival("moco", "one-sided, batch 40", 14, batch=40, symmetric=False),
        rival("simsiam", "rate 0.001, batch 40", 9, rate=1e-3, batch=40),
        rival("moco", "one-sided, momentum 0.9, batch 80", 14, symmetric=False, momentum=0.9),
        rival("byol", "momentum 0.5, batch 80", 7, momentum=0.5),
        rival("byol", "momentum 0.9, batch 40", 7, batch=40, momentum=0.9),
    ),
    # As many trials for each of the others: its own most sensitive setting, and the learning rate.
    "rivals": (
        *(
            Variant(f"simclr, temperature {t:g}", {"temperature": t}, {"epochs": 5}, "demo/simclr")
            for t in (0.1, 0.2, 0.3, 0.5)
        ),
        *(Variant(f"moco, temperature {t:g}", {"temperature": t}, {"epochs": 4}, "demo/moco") for t in (0.1, 0.2)),
        *(Variant(f"byol, momentum {m:g}", {"momentum": m}, {"epochs": 4}, "demo/byol") for m in (0.9, 0.99)),
        *(
            Variant(f"{method}, rate 0.002", {}, {"epochs": epochs, "learning_rate": 2e-3}, f"demo/{method}")
            for method, epochs in (("simclr", 5), ("moco", 4), ("byol", 4), ("simsiam", 5))
        ),
        Variant("simsiam", {}, {"epochs": 5}, "demo/simsiam"),
        Variant("moco, one-sided", {"symmetric": False}, {"epochs": 8}, "demo/moco"),
    ),
}

# The required map, around what won.
GROUPS["now"] = (
    now("demo/hnpm"),
    now("all pairs", mine=False),
    now("tau 0.99", tau=0.99),
    now("tau 0.999", tau=0.999),
    now("infinity norm", norm="inf"),
    now("infinity norm, threshold 2", norm="inf", threshold=2.0),
    now("mean", reduce="mean"),
    now("mean, threshold and softness divided by 128", reduce="mean", threshold=1.4 / 128, softness=0.2 / 128),
    now("no head", head_hidden=0, head_outputs=0),
    now("linear head", head_hidden=0),
    now("head 1024-256", head_hidden=1024, head_outputs=256),
    *(
        now_trial(f"crops from {p} %", **dict.fromkeys(("teacher_view", "student_view", "extra_view"), f"balanced{p}"))
        for p in (8, 50, 80)
    ),
    now("student: plain", student_view="plain"),
    now("student: crop and flip", student_view="crop"),
    now_trial("corrected InfoNCE, all pairs", form="infonce", threshold=9.0),
    now_trial("tau from .5 to 1", tau_end=1.0),
    now_trial("symmetric, three epochs", epochs=3, symmetric=True),
)
GROUPS["mapnow"] = (*_map_now(), *_map_of_eq4())

# To be run over several seeds.
_BEST = (
    "24 px: soft 0.2, all, both, among teachers",
    "24 px: soft 0.2, threshold 1.4, both, among teachers",
    "simclr at 24 px, rate 0.002",
    "simclr at 24 px, temperature 0.1, rate 0.002",
    "best: teacher also 16 px",
)
_KEPT = (
    "half: demo/hnpm",
    "half: all pairs",
    "half: Eq. 4, alpha ratio 1, threshold 1",
    "half: Eq. 4, alpha ratio 0.125, threshold 1",
    "half: Eq. 4, alpha ratio 0.125, threshold 0.15",
)
for _group, _names in (("best", _BEST), ("kept", _KEPT)):
    GROUPS[_group] = tuple(v for group in list(GROUPS.values()) for v in group if v.name in _names)
