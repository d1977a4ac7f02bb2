"""A step without memory: the method's own code on tensors that have shapes and types, but no numbers."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from hardpair.data import Images
from hardpair.methods import Method
from hardpair.models import Encoder
from hardpair.precision import autocast, to_float32
from hardpair.recipes import Recipe
from hardpair.train.cost import forward_flop, step_flop
from hardpair.train.step import build_method, check_view_sizes, fresh_encoder, recipe_draw

META, CPU = torch.device("meta"), torch.device("cpu")


@dataclass(frozen=True)
class Rehearsal:
    """What a step of so many images takes."""

    method: Method  # without memory
    flop: int  # floating point operations of forward and backward, and of a second forward of micro-batches
    encoder_flop: int  # of one forward of the plain encoder on as many images
    kept: int  # bytes of the views and of what autograd saves for the backward
    part_of: Callable[[int], int]  # bytes that it saves of so many images, while a micro-batch is computed again
    part: int  # of the recipe's micro-batch; 0 without


def rehearse(recipe: Recipe, images: Images, count: int) -> Rehearsal:
    """Build the recipe's method for these images and take one step with ``count`` of them.

    Torch's meta device knows no autocast. Its fake tensors do, that of a CPU, but take twice as long.
    """
    half = recipe.precision != "float32"
    device, without_memory = (CPU, FakeTensorMode(allow_non_fake_inputs=True)) if half else (META, nullcontext())
    with torch.random.fork_rng(devices=[]), META:
        method = build_method(recipe, images)
        plain = fresh_encoder(recipe).eval()
    method = method.to(memory_format=torch.channels_last).train()
    few = [_few_views(method, recipe, images, n) for n in (2, 3)]
    check_view_sizes(method, few[0])
    kept = Kept()
    with without_memory:
        method, plain = method.to_empty(device=device), plain.to_empty(device=device)
        views = [kept.note(_grown(two, three, count, device)) for two, three in zip(*few, strict=True)]
        encoder_flop = forward_flop(
            plain, torch.empty(count, 3, recipe.tested_pixels, recipe.tested_pixels, device=device)
        )
        encoders = [EncoderInParts(module, kept) for module in method.modules() if isinstance(module, Encoder)]
        with kept.saving():
            flop = step_flop(method, views, precision=recipe.precision)

    def part_of(most: int) -> int:
        with without_memory, autocast(recipe.precision, device):
            return max((encoder.part_of(most, method) for encoder in encoders), default=0)

    return Rehearsal(
        method=method,
        flop=flop + sum(encoder.again for encoder in encoders),
        encoder_flop=encoder_flop,
        kept=kept.bytes_besides(method),
        part_of=part_of,
        part=part_of(recipe.micro_batch),
    )


class Kept:
    """Memory of tensors. Those that share theirs count once."""

    def __init__(self) -> None:
        # By identity, since all addresses are 0; the storages are held, so that none gets the identity of a freed one.
        self.storages: dict[int, torch.UntypedStorage] = {}

    def note(self, tensor: Tensor) -> Tensor:
        """Count this one too."""
        self.storages[_storage_id(tensor)] = tensor.untyped_storage()
        return tensor

    def saving(self) -> AbstractContextManager[object]:
        """Count what autograd saves for the backward."""
        return torch.autograd.graph.saved_tensors_hooks(self.note, lambda tensor: tensor)

    def bytes_besides(self, module: nn.Module, *others: Tensor) -> int:
        """All of it but what lives anyway."""
        anyway = {_storage_id(tensor) for tensor in (*module.parameters(), *module.buffers(), *others)}
        return sum(storage.nbytes() for key, storage in self.storages.items() if key not in anyway)


class EncoderInParts:
    """In place of an encoder's ``in_parts``: the same shapes and counts by one forward instead of thousands."""

    def __init__(self, encoder: Encoder, kept: Kept) -> None:
        self.encoder, self.kept = encoder, kept
        self.again = 0  # operations of the second forward
        self.calls: dict[torch.Size, tuple[Callable[[Tensor], Tensor], Tensor]] = {}  # that were in parts
        vars(encoder)["in_parts"] = self  # found before the method of the class

    def __call__(self, network: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
        """What the backward needs is not kept, but for the images and the outputs."""
        if not torch.is_grad_enabled() or not 0 < self.encoder.micro_batch < len(images):
            return to_float32(network(images))
        self.kept.note(images)
        self.calls[images.shape] = network, images
        with FlopCounterMode(display=False) as counter, Kept().saving():
            outputs = to_float32(network(images))
        self.again += int(counter.get_total_flops())
        return torch.cat([outputs])

    def part_of(self, most: int, method: nn.Module) -> int:
        """Bytes that autograd saves of the largest part of a call, at most so many images, without these."""
        found = [0]
        for network, images in self.calls.values():
            kept, part = Kept(), images.tensor_split(math.ceil(len(images) / most))[0]
            with kept.saving():
                network(part)
            found.append(kept.bytes_besides(method, part))
        return max(found)


def _few_views(method: Method, recipe: Recipe, images: Images, count: int) -> list[Tensor]:
    """Real views of a few images. Fake ones cannot be made: which to blur is looked up in random numbers."""
    rows = torch.zeros(count, dtype=torch.long)
    return method.views(images.batch(rows), recipe_draw(recipe, 0, torch.arange(count), rows))


def _grown(two: Tensor, three: Tensor, count: int, device: torch.device) -> Tensor:
    """A side that differs between two images and three grows with their number."""
    shape = [a + (b - a) * (count - 2) for a, b in zip(two.shape, three.shape, strict=True)]
    last = two.ndim == 4 and two.is_contiguous(memory_format=torch.channels_last)
    layout = torch.channels_last if last else torch.contiguous_format
    return torch.empty(shape, dtype=two.dtype, device=device, memory_format=layout)


def _storage_id(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)  # noqa: SLF001
