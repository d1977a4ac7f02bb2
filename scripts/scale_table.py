"""The tables of docs/explanation/scale.md: every ImageNet recipe, or those named, planned for eight GPUs.

python scripts/scale_table.py [RECIPE …]
python scripts/scale_table.py --single [RECIPE …]    # those of batch 4,096 on one GPU of 24 GB, in micro-batches
"""

import sys
from dataclasses import replace

from hardpair.recipes import RECIPES, find_recipe
from hardpair.train.plan import Gpus, RunPlan, enough_gpus, make_plan

HEAD = (
    "recipe",
    "encoder, M",
    "trained, M",
    "GFLOP per image",
    "batch",
    "GB per GPU",
    "checkpoint, GB",
    "days",
    "80 GB hold it",
)
SINGLE_HEAD = (
    "recipe",
    "precision",
    "micro-batch",
    "weights, gradients, optimiser, GB",
    "views, heads, loss, GB",
    "a part, GB",
    "together, GB",
    "days",
)
SINGLE = Gpus(1, memory=24e9)


def row(plan: RunPlan) -> tuple[str, ...]:
    """The cells of one recipe."""
    return (
        f"`{plan.recipe.name}`",
        f"{plan.parameters.encoder / 1e6:.1f}",
        f"{plan.parameters.trained / 1e6:.1f}",
        f"{plan.work.step_per_image / 1e9:,.1f}",
        f"{plan.recipe.batch_size:,}",
        f"{plan.memory.total / 1e9:.1f}",
        f"{plan.disk.checkpoint / 1e9:.2f}",
        f"{plan.seconds / 86_400:,.1f}",
        "yes" if plan.fits else f"on {enough_gpus(plan)} GPUs",
    )


def single(name: str, precision: str) -> RunPlan:
    """On one GPU, in the micro-batches that the plan advises."""
    recipe = replace(find_recipe(name), precision=precision)
    return make_plan(replace(recipe, micro_batch=make_plan(recipe, SINGLE).micro_batch or 1), SINGLE)


def single_row(plan: RunPlan) -> tuple[str, ...]:
    """The cells of one recipe and precision."""
    memory = plan.memory
    return (
        f"`{plan.recipe.name}`",
        plan.recipe.precision,
        str(plan.recipe.micro_batch) if plan.fits else "none fits",
        *(f"{part / 1e9:.1f}" for part in (memory.fixed, memory.activations, memory.part, memory.total)),
        f"{plan.seconds / 86_400:,.0f}",
    )


def main() -> None:
    """Print the table as markdown, a line as soon as it is known."""
    alone = "--single" in sys.argv
    every = sorted(name for name in RECIPES if name.startswith("imagenet/"))
    names = [word for word in sys.argv[1:] if word != "--single"] or every
    head = SINGLE_HEAD if alone else HEAD
    print(f"| {' | '.join(head)} |")
    print(f"|---|{'---:|' * (len(head) - 1)}")
    for name in names:
        if not alone:
            print(f"| {' | '.join(row(make_plan(find_recipe(name), Gpus(8))))} |", flush=True)
        elif find_recipe(name).batch_size == 4096:
            for precision in ("float32", "bfloat16"):
                print(f"| {' | '.join(single_row(single(name, precision)))} |", flush=True)


if __name__ == "__main__":
    main()
