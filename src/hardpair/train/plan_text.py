"""What a plan says: its figures as JSON or to read, whether it fits, and what was assumed."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch

from hardpair.machine import A100_TFLOPS
from hardpair.text import duration, scaled, several, sides
from hardpair.train.hours import Fitted
from hardpair.train.plan import FREE, RunPlan, enough_gpus, most_images


def plan_json(plan: RunPlan, fitted: Fitted | None = None) -> dict[str, Any]:
    """Every figure, in operations, bytes and seconds, and what follows from them."""
    content = dataclasses.asdict(plan)
    content["recipe"] = plan.recipe.to_json()
    content["memory"]["total"] = plan.memory.total
    content["gpus"]["tflops"] = plan.tflops
    content["fitted"] = dataclasses.asdict(fitted) if fitted else None
    seconds = {"step": plan.step_seconds, "total": plan.seconds}
    return {**content, "seconds": seconds, "fits": plan.fits, "verdict": verdict(plan), "assumed": assumptions(plan)}


def plan_text(plan: RunPlan, fitted: Fitted | None = None) -> str:
    """The same to read: for which machine, a figure per line, a verdict, and what was assumed."""
    recipe, kernels = plan.recipe, " with selective kernels" * plan.recipe.sk
    encoder = f"{recipe.encoder} of width {recipe.width:g}{kernels}, {sides(recipe.image_size, recipe.view_pixels)}"
    lines = [f"{recipe.name}: {recipe.method}, {encoder}, batch {recipe.batch_size:,}, {recipe.optimiser}"]
    lines += [*_fitted(fitted), *_machines(plan)]
    for name, value, note in _rows(plan):
        lines += [f"  {name:38}{value:>14}  {note}".rstrip()] if value else ["", name]
    return "\n".join([*lines, "", verdict(plan), "", "assumed", *(f"  {line}" for line in assumptions(plan))])


def _fitted(fitted: Fitted | None) -> Iterator[str]:
    """What fits into the hours that were given, and the command to paste."""
    if fitted is None:
        return
    epochs = several(fitted.epochs, "epoch")
    yield f"in {fitted.hours:g} h {fitted.place}: {epochs}, which take {_time(fitted.seconds)}"
    yield f"  {fitted.command}" if fitted.command else "  no command, since it does not fit: see below"


def _machines(plan: RunPlan) -> Iterator[str]:
    """How long it takes on this machine, and for which other the figures are."""
    gpus, here = plan.gpus, plan.here
    if here is not None:
        time_here = f"whole run {_time(here.step_seconds * plan.work.steps)}, {_time(here.step_seconds)} per step"
        on = f"{here.device}, {several(here.threads, 'thread')}" if here.device == "cpu" else here.device
        yield f"on this machine ({on}): {time_here}, by {several(here.steps, 'timed step')}"
    elif not plan.note_here and not torch.cuda.is_available():
        yield "on this machine: --here times some steps"
    if plan.note_here:
        yield f"on this machine: {plan.note_here}"
    kind = "like an A100, " if like_an_a100(plan) else "of "
    speed = f"{kind}{plan.tflops:g} TFLOPS and {scaled(gpus.memory, 'B')}"
    yield f"planned for {several(gpus.count, 'GPU')} {speed}{' each' * (gpus.count > 1)}"


def like_an_a100(plan: RunPlan) -> bool:
    """Whether the default speed was planned with."""
    return plan.tflops == A100_TFLOPS[plan.recipe.precision]


def _rows(plan: RunPlan) -> list[tuple[str, str, str]]:
    """Name, value and note; a title has no value."""
    recipe, parameters, work, memory, disk = plan.recipe, plan.parameters, plan.work, plan.memory, plan.disk
    forward = f"of {scaled(work.encoder_per_image, 'FLOP')} each"
    moving = "gathered pieces" if plan.gpus.shard else "gradients on their way to other GPUs"
    sent = [(moving, scaled(memory.on_the_way, "B"), "")] if memory.on_the_way else []
    in_parts = f", {recipe.micro_batch:,} at a time" if memory.part else ""
    part = [(f"a part of {recipe.micro_batch:,}, computed again", scaled(memory.part, "B"), "")] if memory.part else []
    needed = "views, and what heads and loss need" if memory.part else "views, and what backward needs"
    rate = f"{recipe.batch_size / plan.step_seconds:,.0f} images/s on all GPUs"
    return [
        ("parameters", "", ""),
        ("encoder", f"{parameters.encoder / 1e6:,.2f} M", ""),
        ("whole method", f"{parameters.method / 1e6:,.2f} M", ""),
        ("trained by gradient", f"{parameters.trained / 1e6:,.2f} M", ""),
        ("work", "", ""),
        ("per image, forward and backward", scaled(work.step_per_image, "FLOP"), ""),
        ("the same in forwards of the encoder", f"{work.forward_equivalents:.2f}", forward),
        ("steps", f"{work.steps:,}", f"{several(recipe.epochs, 'epoch')} of {plan.images // recipe.batch_size:,}"),
        ("whole run", scaled(work.total, "FLOP"), ""),
        (f"memory of each GPU, {plan.share:,} images per step{in_parts}", "", ""),
        ("trained weights", scaled(memory.weights, "B"), ""),
        ("averaged copies, memories, statistics", scaled(memory.untrained, "B"), ""),
        ("gradients", scaled(memory.gradients, "B"), ""),
        *sent,
        ("optimiser's state", scaled(memory.optimiser, "B"), ""),
        (needed, scaled(memory.activations, "B"), ""),
        *part,
        ("together", scaled(memory.total, "B"), f"of {scaled(plan.gpus.memory, 'B')}"),
        ("disk", "", ""),
        ("a checkpoint", scaled(disk.checkpoint, "B"), ""),
        ("the two that are kept", scaled(disk.checkpoints_kept, "B"), "three while one is written"),
        ("images as uint8", scaled(disk.images, "B"), "host memory should hold them too"),
        (f"time on {several(plan.gpus.count, 'GPU')}", "", ""),
        ("a step", _time(plan.step_seconds), rate),
        ("an epoch", _time(plan.seconds / recipe.epochs), ""),
        ("whole run", _time(plan.seconds), ""),
    ]


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.1f} s" if seconds < 60 else duration(seconds)


def verdict(plan: RunPlan) -> str:
    """Whether it fits, and if not, what to do."""
    memory, gpus = plan.memory, plan.gpus
    if plan.fits:
        return f"fits: {scaled(memory.total, 'B')} of {scaled(gpus.memory, 'B')} on each GPU"
    needs = f"does not fit: {scaled(memory.total, 'B')} where {scaled(gpus.usable, 'B')} can be counted on"
    ways = []
    if plan.micro_batch is not None:
        ways.append(f"--micro-batch {plan.micro_batch}")
    if (most := most_images(plan)) >= 2:
        if (more := enough_gpus(plan)) is not None:
            ways.append(f"--gpus {more}")
        ways.append(f"--batch-size {most * gpus.count} (and a learning rate to match)")
    if ways:
        return f"{needs}; give {' or '.join(ways)}"
    return (
        f"{needs}, and {scaled(memory.fixed, 'B')} of it at any batch; it takes GPUs with more memory, a smaller "
        f"encoder, smaller images, or {'more --gpus' if gpus.shard else 'several --gpus and --shard'}"
    )


SUSTAINED = {
    "float32": "what ResNet-50 reaches in TF32 on eight A100 (NVIDIA's 906 images/s each), a seventh of their peak; "
    "a wider encoder may come nearer to it",
    "bfloat16": "what ResNet-50 reaches in float16, whose peak is the same, on eight A100 (NVIDIA's 2,078 images/s "
    "each), a sixth of that peak; a wider encoder may come nearer to it",
}
"""What the default speeds are."""

ARITHMETIC = {
    "float32": "float32 throughout",
    "bfloat16": "bfloat16 in encoders and heads, kept for the backward where a CPU's autocast keeps it; weights, "
    "gradients, losses and optimiser in float32",
}


def assumptions(plan: RunPlan) -> list[str]:
    """What the figures stand on."""
    gpus, recipe = plan.gpus, plan.recipe
    speed = f"{plan.tflops:g} TFLOPS sustained on each GPU"
    if like_an_a100(plan):
        speed += f": {SUSTAINED[recipe.precision]}"
    parts = (
        f"encoders see {recipe.micro_batch:,} images at a time, twice where they learn; their batch norms see no others"
    )
    return [
        plan.source,
        speed,
        "no step waits for images or for other GPUs",
        ARITHMETIC[recipe.precision],
        f"every GPU holds {'a part of the' if gpus.shard else 'the whole'} method and its images",
        *([parts] if plan.memory.part else []),
        f"{FREE * 100:g} % of a GPU's memory stays free for workspaces and the driver",
        "figures for GPUs are estimates from shapes alone",
    ]
