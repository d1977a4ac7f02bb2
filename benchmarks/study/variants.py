"""Short ways to write a variant of the study down; groups.py has them all.

Every variant changes a recipe of the demo, demo/hnpm where not said otherwise, with views of full size and a learning
rate of .001 and a batch of 160, in the fields and settings it names.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from trial import SimCLRSmall, Trial, smaller

from hardpair.methods import METHODS
from hardpair.recipes import find_recipe
from hardpair.recipes.demo import WORKING
from hardpair.sweep.variants import Variant
from hardpair.views import POLICIES

METHODS["simclrsmall"] = SimCLRSmall
METHODS["trial"], METHODS["trial24"] = Trial, smaller(Trial, 24)
for _name in ("hnpm", "simclr", "moco", "byol", "simsiam"):
    METHODS[f"{_name}24"] = smaller(METHODS[_name], 24)
for _percent in (8, 50, 80):
    POLICIES[f"balanced{_percent}"] = replace(POLICIES["balanced"], crop=(_percent / 100, 1.0))
POLICIES["part"] = replace(POLICIES["balanced"], crop=(0.05, 0.5))

NOTHING: Mapping[str, Any] = MappingProxyType({})
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


def vary(
    label: str, settings: Mapping[str, Any] = NOTHING, fields: Mapping[str, Any] = NOTHING, base: str = "demo/hnpm"
) -> Variant:
    """The base with these changes; where they name a method, its settings are all that are given."""
    changed = {"data": DATA, "epochs": EPOCHS, "learning_rate": 1e-3, "view_size": 1.0, "batch_size": 160}
    changed |= fields
    own = {**({} if "method" in changed else BEFORE[base]), **settings}
    recipe = replace(find_recipe(base), name="study", settings=own, **changed)
    return Variant(re.sub(r"[^a-z0-9.]+", "-", label.lower()), label, recipe)


def trial(name: str, *, epochs: int = EPOCHS, rate: float = 1e-3, **settings: Any) -> Variant:
    """A variant of the method in trial.py."""
    return vary(name, settings, {"method": "trial", "epochs": epochs, "learning_rate": rate})


def small(name: str, *, batch_size: int = 160, **settings: Any) -> Variant:
    """The same with views of 24 px, the epochs they pay for and a higher learning rate."""
    changes = {"method": "trial24", "epochs": 14, "learning_rate": 2e-3, "batch_size": batch_size}
    return vary(f"24 px: {name}", settings, changes)


def soft(
    name: str,
    *,
    epochs: int = 14,
    rate: float = 2e-3,
    more: Mapping[str, Any] = NOTHING,
    kind: str = "best",
    **settings: Any,
) -> Variant:
    """The best of those (soft 0.2, threshold 1.4, both, among teachers), changed."""
    best = {"form": "soft", "softness": 0.2, "threshold": 1.4, "anchors": "both", "among_teachers": True}
    sizes = {"crop_size": 24, "student_size": 24}
    changes = {"method": "trial", "epochs": epochs, "learning_rate": rate, **more}
    return vary(f"{kind}: {name}", {**best, **sizes, **settings}, changes)


def simclr(
    name: str, epochs: int = 9, *, size: int | str = 24, more: Mapping[str, Any] = NOTHING, **settings: Any
) -> Variant:
    """SimCLR with views of so many pixels."""
    changes = {"epochs": epochs, "learning_rate": 2e-3, "method": f"simclr{size}", **more}
    return vary(f"simclr: {name}", {**BEFORE["demo/simclr"], **settings}, changes, "demo/simclr")


def small40(name: str, **changes: Any) -> Variant:
    """The best with a small view of the teacher and batches of 40."""
    return soft(f"also 16 px, batch 40, {name}", epochs=10, extra_size=16, more={"batch_size": 40}, **changes)


def rival(method: str, name: str, epochs: int, *, rate: float = 2e-3, batch: int = 80, **settings: Any) -> Variant:
    """Another system with views of 24 px."""
    changes = {"epochs": epochs, "learning_rate": rate, "method": f"{method}24", "batch_size": batch}
    own = {**BEFORE[f"demo/{method}"], **settings}
    return vary(f"{method} at 24 px: {name}", own, changes, f"demo/{method}")


def fields(name: str, **changes: Any) -> Variant:
    """A variant of the recipe's other fields."""
    return vary(name, {}, changes)


def now(name: str, **settings: Any) -> Variant:
    """The demo's recipe as the study left it, at half the compute of the others."""
    changes = {"method": "hnpm", "epochs": 5, "learning_rate": 2e-3, "batch_size": 40, "view_size": 0.75}
    return vary(f"half: {name}", {**WORKING, **settings}, changes)


def now_trial(name: str, *, epochs: int = 5, **changes: Any) -> Variant:
    """The same with a choice that the product does not have."""
    return soft(name, epochs=epochs, extra_size=16, more={"batch_size": 40}, kind="half", **changes)
