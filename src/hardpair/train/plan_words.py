"""A plan in words: a table to read, a verdict, and what was assumed."""

import math
from collections.abc import Iterator
from typing import Any

from hardpair.options import A100_TFLOPS
from hardpair.train.plan import FREE, Plan
from hardpair.words import scaled, several, sides


def plan_json(plan: Plan) -> dict[str, Any]:
    """All figures, in operations, bytes and seconds, and what follows from them."""
    return {**plan.to_json(), "verdict": verdict(plan), "assumed": assumptions(plan)}


def plan_text(plan: Plan) -> str:
    """The same to read, a figure a line."""
    lines = [_title(plan)]
    for title, rows in (
        ("parameters", _parameters(plan)),
        ("work", _work(plan)),
        (f"memory of each GPU, {plan.share:,} images per step", _memory(plan)),
        ("disk", _disk(plan)),
        ("time", _time(plan)),
    ):
        lines += ["", title, *(f"  {name:38}{value:>14}  {note}".rstrip() for name, value, note in rows)]
    lines += ["", verdict(plan), "", "assumed", *(f"  {line}" for line in assumptions(plan))]
    return "\n".join(lines)


Row = tuple[str, str, str]  # name, value, note


def _title(plan: Plan) -> str:
    recipe = plan.recipe
    kernels = " with selective kernels" * recipe.sk
    size = sides(recipe.image_size, recipe.view_pixels)
    return (
        f"{recipe.name} on {several(plan.gpus.count, 'GPU')}: {recipe.method}, {recipe.encoder} of width "
        f"{recipe.width:g}{kernels}, {size}, batch {recipe.batch_size:,}, {recipe.optimiser}"
    )


def _parameters(plan: Plan) -> Iterator[Row]:
    yield "encoder", _millions(plan.parameters.encoder), ""
    yield "whole method", _millions(plan.parameters.method), ""
    yield "trained by gradient", _millions(plan.parameters.trained), ""


def _work(plan: Plan) -> Iterator[Row]:
    work, recipe = plan.work, plan.recipe
    yield "an image, forward and backward", scaled(work.step_per_image, "FLOP"), ""
    forwards = f"of {scaled(work.encoder_per_image, 'FLOP')} each"
    yield "the same in forwards of the encoder", f"{work.forward_equivalents:.2f}", forwards
    yield "steps", f"{work.steps:,}", f"{several(recipe.epochs, 'epoch')} of {plan.images // recipe.batch_size:,}"
    yield "whole run", scaled(work.total, "FLOP"), ""


def _memory(plan: Plan) -> Iterator[Row]:
    memory = plan.memory
    yield "trained weights", scaled(memory.weights, "B"), ""
    yield "averaged copies, memories, statistics", scaled(memory.untrained, "B"), ""
    yield "gradients", scaled(memory.gradients, "B"), ""
    if memory.on_the_way:
        name = "pieces put together for their turn" if plan.gpus.shard else "gradients on their way to other GPUs"
        yield name, scaled(memory.on_the_way, "B"), ""
    yield "optimiser's state", scaled(memory.optimiser, "B"), ""
    yield "views, and what backward needs", scaled(memory.activations, "B"), ""
    yield "together", scaled(memory.total, "B"), f"of {scaled(plan.gpus.memory, 'B')}"


def _disk(plan: Plan) -> Iterator[Row]:
    disk = plan.disk
    yield "a checkpoint", scaled(disk.checkpoint, "B"), ""
    yield "the two that are kept", scaled(disk.checkpoints_kept, "B"), "three while one is written"
    yield "images as uint8", scaled(disk.images, "B"), "host memory should hold them too"


def _time(plan: Plan) -> Iterator[Row]:
    rate = plan.recipe.batch_size / plan.step_seconds
    yield "a step", duration(plan.step_seconds), f"{rate:,.0f} images a second on all GPUs"
    yield "an epoch", duration(plan.seconds / plan.recipe.epochs), ""
    yield "whole run", duration(plan.seconds), ""


def verdict(plan: Plan) -> str:
    """Whether it fits, and where not, what to do."""
    memory, gpus = plan.memory, plan.gpus
    if plan.fits:
        return f"fits: {scaled(memory.total, 'B')} of {scaled(gpus.memory, 'B')} on each GPU"
    needs = f"does not fit: {scaled(memory.total, 'B')} where {scaled(gpus.usable, 'B')} can be counted on"
    if (most := most_images(plan)) < 2:
        return (
            f"{needs}, and {scaled(memory.fixed, 'B')} of it at any batch; it takes GPUs with more memory, a smaller "
            f"encoder, smaller images, or {'more --gpus' if gpus.shard else 'several --gpus and --shard'}"
        )
    smaller = f"--batch-size {most * gpus.count} (and a learning rate to match)"
    more = enough_gpus(plan)
    return f"{needs}; give {f'--gpus {more} or ' if more else ''}{smaller}"


def most_images(plan: Plan) -> int:
    """How many a GPU holds at a step, were every one to take as much as now."""
    return math.floor((plan.gpus.usable - plan.memory.fixed) / plan.memory.activations * plan.share)


def enough_gpus(plan: Plan) -> int | None:
    """The smallest number that share the batch evenly and hold at least two images each; None where none does."""
    batch = plan.recipe.batch_size
    shares = (share for share in range(min(most_images(plan), batch), 1, -1) if batch % share == 0)
    return next((batch // share for share in shares), None)


def assumptions(plan: Plan) -> list[str]:
    """What the figures stand on."""
    gpus = plan.gpus
    speed = f"{gpus.tflops:g} TFLOPS sustained on each GPU"
    if gpus.tflops == A100_TFLOPS:
        speed += (
            ": what ResNet-50 reaches in TF32 on eight A100 (NVIDIA's 906 images/s each), a seventh of their peak; "
            "a wider encoder may come nearer to it"
        )
    return [
        plan.source,
        speed,
        "no step waits for images or for other GPUs",
        f"float32 throughout; every GPU holds {'a part of the' if gpus.shard else 'the whole'} method and its images",
        f"{FREE * 100:g} % of a GPU's memory stays free for workspaces and the driver",
        "an estimate from shapes alone; nothing has been run",
    ]


def duration(seconds: float) -> str:
    """In the unit that gives a number people can grasp."""
    for limit, unit, name in ((1, 1e-3, "ms"), (120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds / 86_400:,.1f} days"


def _millions(count: int) -> str:
    return f"{count / 1e6:,.2f} M"
