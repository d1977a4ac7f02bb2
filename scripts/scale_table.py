"""The table of docs/explanation/scale.md: every ImageNet recipe, or those named, planned for eight GPUs.

python scripts/scale_table.py [RECIPE …]
"""

import sys

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


def main() -> None:
    """Print the table as markdown, a line as soon as it is known."""
    names = sys.argv[1:] or sorted(name for name in RECIPES if name.startswith("imagenet/"))
    print(f"| {' | '.join(HEAD)} |")
    print(f"|---|{'---:|' * (len(HEAD) - 1)}")
    for name in names:
        print(f"| {' | '.join(row(make_plan(find_recipe(name), Gpus(8))))} |", flush=True)


if __name__ == "__main__":
    main()
