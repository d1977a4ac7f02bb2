"""A run that ends in time: as many epochs as fit into some hours."""

import math
from dataclasses import dataclass, replace

from hardpair.errors import UserError, require_range
from hardpair.recipes import Recipe
from hardpair.recipes.recipe import RANGES
from hardpair.text import duration, several
from hardpair.train.plan import RunPlan

SPARE = 0.05  # of the hours: to begin, to save, to end
ROUNDING = 1e-6  # of a step: what fits exactly does fit
NARROWEST = 1 / 16  # of an encoder


@dataclass(frozen=True)
class Fitted:
    """What fits into the hours."""

    hours: float
    place: str  # where: on this machine, on 8 GPUs
    epochs: int
    seconds: float  # that they take
    command: str = ""  # that trains so long; empty where memory is too small


def fit_epochs(plan: RunPlan, hours: float, *, on_gpus: bool) -> tuple[RunPlan, Fitted]:
    """The plan with as many epochs as fit, on the GPUs planned for or on this machine, where a step has been timed."""
    require_range("hours", hours, 1e-3, 1e5)
    steps = plan.images // plan.recipe.batch_size  # of an epoch
    if on_gpus:
        place, step_seconds = f"on {several(plan.gpus.count, 'GPU')}", plan.step_seconds
    elif plan.here is None:
        raise UserError(f"hours: this machine cannot tell ({plan.note_here}); name the GPUs to train on (--gpus)")
    else:
        place, step_seconds = "on this machine", plan.here.step_seconds
    fitting = (1 - SPARE) * hours * 3600 / step_seconds  # steps
    epochs = min(int(fitting / steps + ROUNDING), int(RANGES["epochs"][1]))
    if epochs < 1:
        raise UserError(_too_short(plan, fitting, step_seconds, place))
    work = replace(plan.work, steps=steps * epochs, total=plan.work.total / plan.work.steps * steps * epochs)
    fitted = replace(plan, recipe=with_epochs(plan.recipe, epochs), work=work)
    return fitted, Fitted(hours, place, epochs, epochs * steps * step_seconds)


def with_epochs(recipe: Recipe, epochs: int) -> Recipe:
    """The recipe with a number of epochs; a warm-up that would be longer than they are keeps its share of the run."""
    warmup = recipe.warmup_epochs
    if warmup >= epochs:
        warmup = float(f"{warmup * epochs / recipe.epochs:.3g}")
    return replace(recipe, epochs=epochs, warmup_epochs=warmup)


def _too_short(plan: RunPlan, fitting: float, step_seconds: float, place: str) -> str:
    """One line: what an epoch takes, and what would fit."""
    batch = plan.recipe.batch_size
    steps, images = plan.images // batch, int(fitting + ROUNDING) * batch
    enough = math.ceil(100 * steps * step_seconds / 3600 / (1 - SPARE) - ROUNDING) / 100
    width = math.floor(100 * plan.recipe.width * math.sqrt(fitting / steps)) / 100  # the work grows with its square
    smaller = f"an encoder of --width {width:g}" if width >= NARROWEST else "a smaller encoder"
    return (
        f"hours: an epoch of {plan.images:,} images takes {duration(math.ceil(steps * step_seconds))} {place}; "
        f"give --hours {enough:g}, {f'{images:,} images at most, ' if images else ''}or {smaller}"
    )
