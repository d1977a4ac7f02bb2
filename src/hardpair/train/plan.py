"""What a run will need, before it starts: work, memory of each GPU, disk and time (docs/explanation/scale.md)."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from hardpair.data import Images, outline_images
from hardpair.errors import UserError, require_range
from hardpair.machine import A100_TFLOPS, free_memory
from hardpair.methods import Method
from hardpair.precision import fastest
from hardpair.recipes import Recipe
from hardpair.text import scaled
from hardpair.train.checkpoints import KEPT
from hardpair.train.cost import Here, time_steps, timed_batch
from hardpair.train.optimisers import build_optimiser
from hardpair.train.parallel import pick_device, pieces
from hardpair.train.rehearsal import rehearse

MOST_FLOP = 1.5e12  # of a timed step that nobody asked for
PROBES = (2, 4)  # micro-batches by which a fitting one is found
FREE = 0.1  # share of a GPU's memory left for workspaces, gradients of activations and what the driver takes
HEADER = 90  # bytes that a safetensors file spends on a tensor, besides its name and itself


@dataclass(frozen=True)
class Gpus:
    """What the run is to have; every rank has one GPU and an equal part of the batch."""

    count: int
    tflops: float | None = None  # that each sustains; None is what an A100 does
    memory: float = 80e9  # bytes of each
    shard: bool = False  # each holds a part of the method instead of all of it

    def __post_init__(self) -> None:
        require_range("gpus", self.count, 1, 1_000_000)
        if self.tflops is not None:
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

    step_per_image: float  # forward and backward of the whole method, and a second forward of micro-batches
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
    part: int  # what it would keep of one micro-batch, which the backward computes again; 0 without

    @property
    def fixed(self) -> int:
        """What no batch makes smaller."""
        return self.weights + self.untrained + self.gradients + self.on_the_way + self.optimiser

    @property
    def total(self) -> int:
        """All of it."""
        return self.fixed + self.activations + self.part


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
    micro_batch: int | None = None  # the largest power of two that would make it fit, if any
    here: Here | None = None
    note_here: str = ""  # what keeps this machine from timing a step, or from the run

    @property
    def tflops(self) -> float:
        """That a GPU sustains."""
        return self.gpus.tflops or A100_TFLOPS[self.recipe.precision]

    @property
    def share(self) -> int:
        """Images per step on each GPU."""
        return self.recipe.batch_size // self.gpus.count

    @property
    def step_seconds(self) -> float:
        """Were a step nothing but its counted work."""
        return self.work.step_per_image * self.share / (self.tflops * 1e12)

    @property
    def seconds(self) -> float:
        """Of the whole run."""
        return self.step_seconds * self.work.steps

    @property
    def fits(self) -> bool:
        """Whether a GPU holds it, with some of its memory left."""
        return self.memory.total <= self.gpus.usable


def make_plan(recipe: Recipe, gpus: Gpus, *, images: int | None = None, here: bool | None = False) -> RunPlan:
    """Plan a recipe; its training images are counted unless their number is given.

    ``here`` times real steps too; None does so where there is no GPU and a step takes no more than some seconds.
    """
    if images is not None:
        require_range("images", images, 2, 10**10)
    if recipe.precision == "auto":
        recipe = replace(recipe, precision=fastest(pick_device("auto")))
    outline = outline_images(recipe.data, size=recipe.image_size, count=images)
    count, batch = len(outline.images), recipe.batch_size
    share, steps = _share(recipe, gpus.count, count), recipe.epochs * (count // batch)
    step = rehearse(recipe, outline.images, share)
    method, per_image = step.method, step.flop / share
    plan = RunPlan(
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
        memory=_memory(method, recipe, gpus, step.kept, step.part),
        disk=_disk(method, recipe, count),
    )
    if not plan.fits:
        plan = replace(plan, micro_batch=_fitting_micro_batch(plan, outline.images))
    return plan if here is False else _timed(plan, outline.images, method, anyway=here is True)


def _timed(plan: RunPlan, images: Images, method: Method, *, anyway: bool) -> RunPlan:
    """With steps timed on this machine, and what keeps it from that or from the run."""
    on_gpu, flop = torch.cuda.is_available(), plan.work.step_per_image
    if on_gpu and not anyway:
        return plan
    batch = timed_batch(plan.recipe, flop)
    free = math.inf if on_gpu else free_memory()
    some, all_of_it = (_memory_here(plan, method, count) for count in (batch, plan.recipe.batch_size))
    if some > free:
        return replace(plan, note_here=f"not timed: {batch} images take {_too_much(some, free)}")
    if not anyway and batch * flop > MOST_FLOP:
        return replace(plan, note_here=f"not timed: {scaled(flop, 'FLOP')} per image take long; --here times them")
    note = f"a step takes {_too_much(all_of_it, free)}" if all_of_it > free else ""
    return replace(plan, here=time_steps(plan.recipe, images, batch), note_here=note)


def _memory_here(plan: RunPlan, method: Method, count: int) -> float:
    """Bytes that a step of so many images takes in a single process."""
    share = count / plan.share
    fixed = _memory(method, plan.recipe, Gpus(1)).fixed
    return fixed + plan.memory.activations * share + plan.memory.part * min(1, share)


def _too_much(needed: float, free: float) -> str:
    return f"{scaled(needed, 'B')} of memory, and {scaled(free, 'B')} are free"


def _fitting_micro_batch(plan: RunPlan, images: Images) -> int | None:
    """The largest power of two, given that what a part takes grows evenly with its size."""
    few, some = PROBES
    if plan.share <= some:
        return None
    step = rehearse(replace(plan.recipe, micro_batch=few), images, plan.share)
    each = (step.part_of(some) - step.part) / (some - few)
    room = plan.gpus.usable - plan.memory.fixed - step.kept - (step.part - few * each)
    most = min(int(room / each), plan.share - 1)
    return 1 << (most.bit_length() - 1) if most >= 1 else None


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


def _memory(method: Method, recipe: Recipe, gpus: Gpus, activations: int = 0, part: int = 0) -> Memory:
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
        part=part,
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


def most_images(plan: RunPlan) -> int:
    """How many a GPU holds per step, were every one to take as much as now."""
    memory, half = plan.memory, plan.recipe.precision == "bfloat16"
    copies = memory.weights // 2 if half and not memory.part else 0  # of the weights in half precision, at any batch
    room = plan.gpus.usable - memory.fixed - memory.part - copies
    return math.floor(room / (memory.activations - copies) * plan.share)


def enough_gpus(plan: RunPlan) -> int | None:
    """The smallest number that share the batch evenly and hold at least two images each; None where none does."""
    batch = plan.recipe.batch_size
    shares = (share for share in range(min(most_images(plan), batch), 1, -1) if batch % share == 0)
    return next((batch // share for share in shares), None)
