"""What a run will need, before it starts: work, memory of each GPU, disk and time (docs/explanation/scale.md)."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import nn

from hardpair.data import outline_images
from hardpair.errors import UserError, require_range
from hardpair.options import A100_TFLOPS
from hardpair.recipes import Recipe
from hardpair.train.footprint import Disk, Memory, disk_of, memory_of
from hardpair.train.rehearsal import Rehearsal, rehearse

FREE = 0.1  # share of a GPU's memory left for workspaces, gradients of activations and what the driver takes


@dataclass(frozen=True)
class Gpus:
    """What the run is to have; every process has one GPU and an equal part of the batch."""

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
class Parameters:
    """How many."""

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
class Plan:
    """The figures of one run."""

    recipe: Recipe
    gpus: Gpus
    images: int
    source: str  # how their number is known
    parameters: Parameters
    work: Work
    memory: Memory
    disk: Disk

    @property
    def share(self) -> int:
        """Images of a step on each GPU."""
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

    def to_json(self) -> dict[str, Any]:
        """Every figure, in operations, bytes and seconds."""
        parts = {name: dataclasses.asdict(getattr(self, name)) for name in ("gpus", "parameters", "work", "memory")}
        parts["memory"]["total"] = self.memory.total
        return {
            "recipe": self.recipe.to_json(),
            "images": self.images,
            "source": self.source,
            **parts,
            "disk": dataclasses.asdict(self.disk),
            "seconds": {"step": self.step_seconds, "total": self.seconds},
            "fits": self.fits,
        }


def make_plan(recipe: Recipe, gpus: Gpus, *, images: int | None = None) -> Plan:
    """Plan a recipe; its training images are counted unless their number is given."""
    if images is not None:
        require_range("images", images, 2, 10**10)
    outline = outline_images(recipe.data, size=recipe.image_size, count=images)
    count, share = len(outline.images), _share(recipe, gpus.count, len(outline.images))
    step = rehearse(recipe, outline.images, share)
    method = step.method
    return Plan(
        recipe=recipe,
        gpus=gpus,
        images=count,
        source=outline.source,
        parameters=Parameters(
            encoder=_count(method.encoder.parameters()),
            method=_count(method.parameters()),
            trained=_count(p for p in method.parameters() if p.requires_grad),
        ),
        work=_work(recipe, step, share, steps=recipe.epochs * (count // recipe.batch_size)),
        memory=memory_of(method, recipe, gpus=gpus.count, activations=step.kept, shard=gpus.shard),
        disk=disk_of(method, recipe, count),
    )


def _share(recipe: Recipe, gpus: int, images: int) -> int:
    """Images of a step for each GPU."""
    batch = recipe.batch_size
    if batch > images:
        raise UserError(f"batch_size: {batch} is more than the {images} training images")
    if batch % gpus:
        near = max(2, round(batch / gpus)) * gpus
        raise UserError(f"batch_size: {batch} cannot be divided among {gpus} GPUs; {near} can, or give other --gpus")
    if batch // gpus < 2:
        raise UserError(f"gpus: {gpus} leave one image of batch_size {batch} to each; give at most {batch // 2}")
    return batch // gpus


def _work(recipe: Recipe, step: Rehearsal, share: int, *, steps: int) -> Work:
    per_image = step.operations / share
    return Work(
        step_per_image=per_image,
        encoder_per_image=step.plain_operations / share,
        forward_equivalents=step.operations / step.plain_operations,
        steps=steps,
        total=per_image * recipe.batch_size * steps,
    )


def _count(parameters: Iterable[nn.Parameter]) -> int:
    return sum(parameter.numel() for parameter in parameters)
