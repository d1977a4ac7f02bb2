"""`hardpair plan`: what a training will need."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hardpair.cli.recipe_arguments import given_names, parse_recipe, pretrain_command
from hardpair.machine import prepare_to_compute
from hardpair.recipes import CHOSEN, OWN_PHOTOS


@dataclass(frozen=True)
class Plan:
    """The machine to plan for.

    Args:
        gpus: GPUs that share the batch, one process each; 1 when not given.
        tflops: that a GPU sustains, 10^12 operations per second; when not given, what ResNet-50 reaches on an A100:
            22 in float32 (TF32), 50 in bfloat16.
        memory: GB of a GPU.
        images: how many training images, where they are not here to be counted.
        shard: as pretrain's: each GPU holds a part of the method.
        here: time some steps on this machine, and say how long the whole run takes on it. When not given, only where
            there is no GPU and a step takes seconds; --no-here never does.
        hours: say how many epochs fit into so many hours, and with which command: on this machine or, if --gpus is
            given, on those.
        json: print the figures as JSON.
    """

    gpus: int | None = None
    tflops: float | None = None
    memory: float = 80.0
    images: int | None = None
    shard: bool = False
    here: bool | None = None
    hours: float | None = None
    json: bool = False


def main(arguments: Sequence[str]) -> int:
    """Say what a training will need."""
    recipe, options = parse_recipe(arguments, Plan, "plan", "What a training will need, before it begins.")
    from hardpair.train.hours import fit_epochs
    from hardpair.train.plan import Gpus, make_plan
    from hardpair.train.plan_text import plan_json, plan_text

    if recipe.name == OWN_PHOTOS:
        from hardpair.train import choose_recipe

        prepare_to_compute(threads=0)
        if not given_names(arguments) >= CHOSEN:
            choice = choose_recipe(recipe, given_names(arguments), hours=options.hours, device="auto")
            recipe = choice.recipe
            print("\n".join(choice.reasons), "\n", sep="", file=sys.stderr if options.json else sys.stdout)
    here = True if options.hours is not None and options.gpus is None else options.here
    if here is not False:
        prepare_to_compute(threads=0)
    gpus = Gpus(1 if options.gpus is None else options.gpus, options.tflops, options.memory * 1e9, options.shard)
    made, fitted = make_plan(recipe, gpus, images=options.images, here=here), None
    if options.hours is not None:
        on_gpus = options.gpus is not None
        made, fitted = fit_epochs(made, options.hours, on_gpus=on_gpus)
        if made.fits or not on_gpus:
            processes = gpus.count if on_gpus else 1
            command = pretrain_command(arguments, made.recipe, processes=processes, shard=gpus.shard and on_gpus)
            fitted = replace(fitted, command=command)
    print(json.dumps(plan_json(made, fitted), indent=2) if options.json else plan_text(made, fitted))
    return 0
