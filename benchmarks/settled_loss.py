"""Did training lower a method's own loss? Measured without learning, before and after.

    python benchmarks/settled_loss.py runs/compare-sample/*-s0/

While a method learns, its logged loss also moves for other reasons: queues and banks begin with random directions and
then hold what older encoders said, which is easier to tell apart than what the newest one says, the more so the
faster it learns. So here nothing is learned: the method as it was before the first step, and as it was after the last,
looks at the training images for an epoch, which fills its memories, and then for half an epoch more, over which the
mean is taken. A method that mines sums over fewer pairs as it learns, so its loss is also given over all pairs.
"""

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import tyro
from torch import Tensor

from hardpair.data import Images, epoch_order, open_images
from hardpair.methods import Method
from hardpair.recipes import Recipe
from hardpair.train.checkpoints import load_checkpoint
from hardpair.train.step import build_method
from hardpair.views import Draw


@dataclass(frozen=True)
class Options:
    """Finished runs.

    Args:
        runs: their folders.
        data_root: where downloaded sets are kept.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    data_root: Path = Path("data")


@torch.no_grad()
def settled_loss(method: Method, images: Images, recipe: Recipe) -> float:
    """Mean over half an epoch, after an epoch that fills the memories; batch norm in training mode, as in training."""
    method.train()
    steps = len(images) // recipe.batch_size
    losses = []
    for step in range(steps + steps // 2):
        epoch, index = divmod(step, steps)
        rows = epoch_order(len(images), seed=recipe.seed, epoch=epoch)[index * recipe.batch_size :][: recipe.batch_size]
        draw = Draw(recipe.seed, step, torch.arange(len(rows)), rows=rows, size=recipe.view_pixels)
        losses.append(float(method(method.views(images.batch(rows), draw))["loss"]))
        method.after_step(1.0)
    return sum(losses[steps:]) / len(losses[steps:])


def before_and_after(recipe: Recipe, tensors: dict[str, Tensor], images: Images) -> tuple[float, float]:
    """The loss of a fresh method, and with the weights of the checkpoint."""
    fresh, trained = build_method(recipe, images), build_method(recipe, images)
    trained.load_state_dict({name: tensors[f"method/{name}"] for name in trained.state_dict()})
    return settled_loss(fresh, images, recipe), settled_loss(trained, images, recipe)


def main() -> int | str:
    """A line for each run."""
    options = tyro.cli(Options, description=__doc__)
    for run in options.runs:
        recipe = Recipe.from_json(json.loads((run / "recipe.json").read_text()))
        checkpoint, _ = load_checkpoint(run / "checkpoints")
        if checkpoint is None:
            return f"{run}: holds no checkpoint"
        images = open_images(recipe.data, "train", size=recipe.image_size, root=options.data_root)
        forms = {recipe.method: recipe}
        if recipe.settings.get("mine"):
            forms[f"{recipe.method}, all pairs"] = replace(recipe, settings={**recipe.settings, "mine": False})
        for name, form in forms.items():
            before, after = before_and_after(form, checkpoint.tensors, images)
            words = "falls" if after < before else "rises"
            print(f"{run.name:24} {name:18} before {before:8.4f}  after {after:8.4f}  {words}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
