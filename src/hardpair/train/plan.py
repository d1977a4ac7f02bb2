"""What a run will need, before it starts: work, memory of each GPU, disk and time (docs/explanation/scale.md)."""

import dataclasses
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from hardpair.data import outline_images
from hardpair.errors import UserError, require_range
from hardpair.machine import A100_TFLOPS
from hardpair.methods import Method
from hardpair.recipes import Recipe
from hardpair.text import duration, scaled, several, sides
from hardpair.train.checkpoints import KEPT
from hardpair.train.cost import Here, rehearse, time_steps
from hardpair.train.optimisers import build_optimiser
from hardpair.train.parallel import pieces

FREE = 0.1  # share of a GPU's memory left for workspaces, gradients of activations and what the driver takes
HEADER = 90  # bytes that a safetensors file spends on a tensor, besides its name and itself


@dataclass(frozen=True)
class Gpus:
    """What the run is to have; every rank has one GPU and an equal part of the batch."""

    count: int
    tflops: float = A100_TFLOPS  # that each sustains
    memory: float = 80e9  # bytes of each
    shard: bool = False  # each holds a part of the method instead of all of it

    def __post_init__(self) -> None:
        require_range("gpus", self.count, 1, 1_000_000)
        require_range("tflops", self.tflops, 1e-3, 1e6)
        require_range("memory", self.memory / 1e9, 1e-3, 1e6)
        if self.shard and self.count == 1:
            raise UserError("shard: a single GPU holds all there is; give --gpus too")

    @property
    def usable(self) -> float:
        """Bytes of each to count on."""
        return (1 - FREE) * self.memory


@dataclass(frozen=True)
class ParameterCounts:
    """How many parameters."""

    encoder: int
    method: int  # with heads and averaged copies
    trained: int  # by the gradient


@dataclass(frozen=True)
class Work:
    """Floating point operations of matrix products and convolutions; nothing else is counted."""

    step_per_image: float  # forward and backward of the whole method
    encoder_per_image: float  # one forward of the plain encoder
    forward_equivalents: float  # the first ÷ the second
    steps: int
    total: float


@dataclass(frozen=True)
class Memory:
    """Bytes on each GPU."""

    weights: int  # that are trained
    untrained: int  # averaged copies, memories of images, statistics of batch norm
    gradients: int
    on_the_way: int  # DDP's buckets of gradients or, sharded, gathered pieces; none with a single GPU
    optimiser: int
    activations: int  # views, and what the forward keeps for the backward

    @property
    def fixed(self) -> int:
        """What no batch makes smaller."""
        return self.weights + self.untrained + self.gradients + self.on_the_way + self.optimiser

    @property
    def total(self) -> int:
        """All of it."""
        return self.fixed + self.activations


@dataclass(frozen=True)
class Disk:
    """Bytes."""

    checkpoint: int
    checkpoints_kept: int
    checkpoints_while_saving: int  # a new one is whole before an old one goes
    images: int  # uint8 at the recipe's size; they want as much of the host's memory


@dataclass(frozen=True)
class RunPlan:
    """The figures of one run."""

    recipe: Recipe
    gpus: Gpus
    images: int
    source: str  # how their number is known
    parameters: ParameterCounts
    work: Work
    memory: Memory
    disk: Disk
    here: Here | None = None

    @property
    def share(self) -> int:
        """Images per step on each GPU."""
        return self.recipe.batch_size // self.gpus.count

    @property
    def step_seconds(self) -> float:
        """Were a step nothing but its counted work."""
        return self.work.step_per_image * self.share / (self.gpus.tflops * 1e12)

    @property
    def seconds(self) -> float:
        """Of the whole run."""
        return self.step_seconds * self.work.steps

    @property
    def fits(self) -> bool:
        """Whether a GPU holds it, with some of its memory left."""
        return self.memory.total <= self.gpus.usable


def make_plan(recipe: Recipe, gpus: Gpus, *, images: int | None = None, here: bool = False) -> RunPlan:
    """Plan a recipe; its training images are counted unless their number is given. ``here`` times real steps too."""
    if images is not None:
        require_range("images", images, 2, 10**10)
    outline = outline_images(recipe.data, size=recipe.image_size, count=images)
    count, batch = len(outline.images), recipe.batch_size
    share, steps = _share(recipe, gpus.count, count), recipe.epochs * (count // batch)
    step = rehearse(recipe, outline.images, share)
    method, per_image = step.method, step.flop / share
    return RunPlan(
        recipe=recipe,
        gpus=gpus,
        images=count,
        source=outline.source,
        parameters=ParameterCounts(
            encoder=_count(method.encoder.parameters()),
            method=_count(method.parameters()),
            trained=_count(_trained(method)),
        ),
        work=Work(
            step_per_image=per_image,
            encoder_per_image=step.encoder_flop / share,
            forward_equivalents=step.flop / step.encoder_flop,
            steps=steps,
            total=per_image * batch * steps,
        ),
        memory=_memory(method, recipe, gpus, step.saved),
        disk=_disk(method, recipe, count),
        here=time_steps(recipe, outline.images, per_image) if here else None,
    )


def _share(recipe: Recipe, gpus: int, images: int) -> int:
    """Images per step for each GPU."""
    batch = recipe.batch_size
    if batch > images:
        raise UserError(f"batch_size: {batch} is more than the {images} training images")
    if batch % gpus:
        near = max(2, round(batch / gpus)) * gpus
        raise UserError(f"batch_size: {batch} cannot be divided among {gpus} GPUs; {near} can, or give other --gpus")
    if batch // gpus < 2:
        raise UserError(f"gpus: {gpus} leave one image of batch_size {batch} to each; give at most {batch // 2}")
    return batch // gpus


def _memory(method: Method, recipe: Recipe, gpus: Gpus, activations: int) -> Memory:
    trained, parts = _trained(method), gpus.count if gpus.shard else 1
    weights = _bytes(trained)
    # Sharded: while one piece works the next is gathered, and the gradient of the last is still to be scattered.
    gathered = 3 * max(_bytes(piece.parameters()) for piece in pieces(method))
    return Memory(
        weights=weights // parts,
        untrained=(_bytes(method.parameters()) - weights) // parts + _bytes(method.buffers()),
        gradients=weights // parts,
        on_the_way=gathered if gpus.shard else weights if gpus.count > 1 else 0,
        optimiser=_bytes(_optimiser_state(trained, recipe)) // parts,
        activations=activations,
    )


def _disk(method: Method, recipe: Recipe, images: int) -> Disk:
    tensors, state = method.state_dict(), _optimiser_state(_trained(method), recipe)
    names = sum(map(len, tensors)) + len(state) * len("optimiser/100/momentum_buffer")
    checkpoint = _bytes(tensors.values()) + _bytes(state) + names + HEADER * (len(tensors) + len(state))
    return Disk(checkpoint, KEPT * checkpoint, (KEPT + 1) * checkpoint, images * 3 * recipe.image_size**2)


def _optimiser_state(trained: list[nn.Parameter], recipe: Recipe) -> list[Tensor]:
    """The tensors that the optimiser will keep for these parameters, without memory of their own.

    One real step with a small layer shows which they are: some of a parameter's shape, and others, like a step count.
    """
    layer = nn.utils.skip_init(nn.Linear, 2, 2)
    for parameter in layer.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimiser = build_optimiser(layer, recipe)
    optimiser.step()
    seen = [value for value in optimiser.state[layer.weight].values() if isinstance(value, Tensor)]
    return [p if value.shape == layer.weight.shape else value for p in trained for value in seen]


def _trained(method: Method) -> list[nn.Parameter]:
    return [parameter for parameter in method.parameters() if parameter.requires_grad]


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors)


def _count(parameters: Iterable[nn.Parameter]) -> int:
    return sum(parameter.numel() for parameter in parameters)


def plan_json(plan: RunPlan) -> dict[str, Any]:
    """Every figure, in operations, bytes and seconds, and what follows from them."""
    content = dataclasses.asdict(plan)
    content["recipe"] = plan.recipe.to_json()
    content["memory"]["total"] = plan.memory.total
    seconds = {"step": plan.step_seconds, "total": plan.seconds}
    return {**content, "seconds": seconds, "fits": plan.fits, "verdict": verdict(plan), "assumed": assumptions(plan)}


def plan_text(plan: RunPlan) -> str:
    """The same to read: for which machine, a figure per line, a verdict, and what was assumed."""
    recipe, kernels = plan.recipe, " with selective kernels" * plan.recipe.sk
    encoder = f"{recipe.encoder} of width {recipe.width:g}{kernels}, {sides(recipe.image_size, recipe.view_pixels)}"
    lines = [f"{recipe.name}: {recipe.method}, {encoder}, batch {recipe.batch_size:,}, {recipe.optimiser}"]
    lines += _machines(plan)
    for name, value, note in _rows(plan):
        lines += [f"  {name:38}{value:>14}  {note}".rstrip()] if value else ["", name]
    return "\n".join([*lines, "", verdict(plan), "", "assumed", *(f"  {line}" for line in assumptions(plan))])


def _machines(plan: RunPlan) -> Iterator[str]:
    """For which machine the figures are, and what is known of this one."""
    gpus, here = plan.gpus, plan.here
    kind = "like an A100, " if gpus.tflops == A100_TFLOPS else "of "
    speed = f"{kind}{gpus.tflops:g} TFLOPS and {scaled(gpus.memory, 'B')}"
    line = f"planned for {several(gpus.count, 'GPU')} {speed}{' each' * (gpus.count > 1)}"
    if here is None and not torch.cuda.is_available():
        line += "; this machine has no GPU: --here times some steps on it, and pretrain prints the time left"
    yield line
    if here is not None:
        time_here = f"whole run {_time(here.step_seconds * plan.work.steps)}, {_time(here.step_seconds)} per step"
        on = f"{here.device}, {several(here.threads, 'thread')}" if here.device == "cpu" else here.device
        yield f"on this machine ({on}): {time_here}, by the median of {several(here.steps, 'timed step')}"


def _rows(plan: RunPlan) -> list[tuple[str, str, str]]:
    """Name, value and note; a title has no value."""
    recipe, parameters, work, memory, disk = plan.recipe, plan.parameters, plan.work, plan.memory, plan.disk
    forward = f"of {scaled(work.encoder_per_image, 'FLOP')} each"
    moving = "gathered pieces" if plan.gpus.shard else "gradients on their way to other GPUs"
    sent = [(moving, scaled(memory.on_the_way, "B"), "")] if memory.on_the_way else []
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
        (f"memory of each GPU, {plan.share:,} images per step", "", ""),
        ("trained weights", scaled(memory.weights, "B"), ""),
        ("averaged copies, memories, statistics", scaled(memory.untrained, "B"), ""),
        ("gradients", scaled(memory.gradients, "B"), ""),
        *sent,
        ("optimiser's state", scaled(memory.optimiser, "B"), ""),
        ("views, and what backward needs", scaled(memory.activations, "B"), ""),
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
    if (most := most_images(plan)) < 2:
        return (
            f"{needs}, and {scaled(memory.fixed, 'B')} of it at any batch; it takes GPUs with more memory, a smaller "
            f"encoder, smaller images, or {'more --gpus' if gpus.shard else 'several --gpus and --shard'}"
        )
    more = enough_gpus(plan)
    smaller = f"--batch-size {most * gpus.count} (and a learning rate to match)"
    return f"{needs}; give {f'--gpus {more} or ' if more else ''}{smaller}"


def most_images(plan: RunPlan) -> int:
    """How many a GPU holds per step, were every one to take as much as now."""
    return math.floor((plan.gpus.usable - plan.memory.fixed) / plan.memory.activations * plan.share)


def enough_gpus(plan: RunPlan) -> int | None:
    """The smallest number that share the batch evenly and hold at least two images each; None where none does."""
    batch = plan.recipe.batch_size
    shares = (share for share in range(min(most_images(plan), batch), 1, -1) if batch % share == 0)
    return next((batch // share for share in shares), None)


def assumptions(plan: RunPlan) -> list[str]:
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
        "figures for GPUs are estimates from shapes alone",
    ]
