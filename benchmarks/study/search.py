"""The same search for every method: its recipe, then as many settings drawn at random from as many choices.

Tuning by hand is never equal for all methods. Here each has five things to vary: learning rate, batch, views and two of
its own. All methods have had the same number of trials whenever the search is stopped. What is
searched at half the compute of the comparison is evaluated like everything else in the study, on validation.
"""

import random
from typing import Any

from variants import vary

from hardpair.sweep.variants import Variant

TRIALS = 8
SHARED: dict[str, tuple[Any, ...]] = {
    "learning_rate": (5e-4, 1e-3, 2e-3, 4e-3),
    "batch_size": (40, 80, 160),
    "view": ("balanced", "strong", "cifar"),
}
OWN: dict[str, dict[str, tuple[Any, ...]]] = {
    "hnpm": {"softness": (0.1, 0.2, 0.4), "tau": (0.0, 0.5, 0.9)},
    "simclr": {"temperature": (0.05, 0.1, 0.2, 0.5), "head_hidden": (256, 512, 1024)},
    "moco": {"temperature": (0.07, 0.1, 0.2), "momentum": (0.97, 0.99, 0.995)},
    "byol": {"momentum": (0.5, 0.9, 0.97, 0.99), "head_hidden": (256, 512, 1024)},
    "simsiam": {"head_outputs": (256, 512, 1024), "predictor_hidden": (64, 128, 256)},
}
VIEW = {"view": "balanced"}
START: dict[str, tuple[float, int, dict[str, Any]]] = {
    "hnpm": (
        2e-3,
        40,
        {
            "teacher_view": "balanced",
            "student_view": "balanced",
            "head_hidden": 512,
            "head_outputs": 128,
            "alpha_pos": 1.0,
            "alpha_neg": 1.0,
            "threshold": 1.4,
            "norm": "l2",
            "softness": 0.2,
            "small_views": 1,
        },
    ),
    "simclr": (2e-3, 80, VIEW | {"temperature": 0.1, "head_hidden": 512}),
    "moco": (2e-3, 80, VIEW | {"temperature": 0.1, "head_hidden": 512, "queue": 1024, "momentum": 0.99}),
    "byol": (
        2e-3,
        80,
        {
            "first_view": "balanced",
            "second_view": "balanced",
            "head_hidden": 512,
            "head_outputs": 128,
            "momentum": 0.9,
        },
    ),
    "simsiam": (1e-3, 40, VIEW | {"head_layers": 2, "head_outputs": 512, "predictor_hidden": 128}),
}
"""Learning rate, batch and settings of the demo's recipes when the search began."""
EPOCHS = {"hnpm": 5, "simclr": 5, "moco": 7, "byol": 4, "simsiam": 5}  # 15 to 18 forwards, of which HNPM has the 15
WHOLE = {"simclr": 9, "moco": 14}
BETTER = {"simclr": 6, "moco": 7}  # draws ahead of their method's recipe
VIEWS = {"hnpm": ("teacher_view", "student_view"), "byol": ("first_view", "second_view")}


def searched() -> tuple[Variant, ...]:
    """Trial by trial, all methods in turn."""
    return tuple(_variant(method, trial) for trial in range(TRIALS) for method in OWN)


def again() -> tuple[Variant, ...]:
    """Where the best draw was ahead of the recipe: both once more, with the compute of the comparison."""
    return tuple(_variant(method, draw, whole=True) for method, best in BETTER.items() for draw in (0, best))


def _variant(method: str, trial: int, *, whole: bool = False) -> Variant:
    rate, batch, settings = START[method]
    name = f"{'whole ' * whole}search {method} {trial}"
    fields: dict[str, Any] = {"method": method, "view_size": 0.75, "epochs": (WHOLE if whole else EPOCHS)[method]}
    fields |= {"learning_rate": rate, "batch_size": batch}
    if not trial:
        return vary(f"{name}: its recipe", settings, fields, f"demo/{method}")
    chance = random.Random(f"{method} {trial}")
    chosen = {name: chance.choice(values) for name, values in (SHARED | OWN[method]).items()}
    fields |= {name: chosen[name] for name in ("learning_rate", "batch_size")}
    views = dict.fromkeys(VIEWS.get(method, ("view",)), chosen["view"])
    own = {name: chosen[name] for name in OWN[method]}
    words = ", ".join(f"{name} {value}" for name, value in chosen.items())
    return vary(f"{name}: {words}", settings | views | own, fields, f"demo/{method}")
