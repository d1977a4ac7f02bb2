"""Bytes that a run takes, in the memory of each GPU and on disk; the method may be on the meta device."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hardpair.methods import Method
from hardpair.recipes import Recipe
from hardpair.train.checkpoints import KEPT
from hardpair.train.optimisers import build_optimiser
from hardpair.train.shard import pieces

HEADER = 90  # bytes that a safetensors file spends on a tensor, besides its name and itself


@dataclass(frozen=True)
class Memory:
    """Bytes on each GPU."""

    weights: int  # that are trained
    untrained: int  # averaged copies, memories of images, statistics of batch norm
    gradients: int
    on_the_way: int  # gradients as they are sent round or, sharded, pieces put together; none with a single GPU
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


def memory_of(method: Method, recipe: Recipe, *, gpus: int, activations: int, shard: bool = False) -> Memory:
    """On a GPU that holds the whole method, or its part of it, and keeps so many bytes for the backward."""
    trained, parts = _trained(method), gpus if shard else 1
    weights = _bytes(trained)
    return Memory(
        weights=weights // parts,
        untrained=(_bytes(method.parameters()) - weights) // parts + _bytes(method.buffers()),
        gradients=weights // parts,
        on_the_way=_whole_pieces(method) if shard else weights if gpus > 1 else 0,
        optimiser=_bytes(_optimiser_state(trained, recipe)) // parts,
        activations=activations,
    )


def _whole_pieces(method: Method) -> int:
    """While one piece works the next is put together, and the gradient of the last is still to be shared out."""
    return 3 * max(_bytes(piece.parameters()) for piece in pieces(method))


def disk_of(method: Method, recipe: Recipe, images: int) -> Disk:
    """Of a run on so many images."""
    tensors = method.state_dict()
    state = _optimiser_state(_trained(method), recipe)
    names = sum(map(len, tensors)) + len(state) * len("optimiser/100/momentum_buffer")
    checkpoint = _bytes(tensors.values()) + _bytes(state) + names + HEADER * (len(tensors) + len(state))
    return Disk(checkpoint, KEPT * checkpoint, (KEPT + 1) * checkpoint, images * 3 * recipe.image_size**2)


def _trained(method: Method) -> list[nn.Parameter]:
    return [parameter for parameter in method.parameters() if parameter.requires_grad]


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors)


def _optimiser_state(trained: list[nn.Parameter], recipe: Recipe) -> list[Tensor]:
    """The tensors that the optimiser will keep for these parameters, without memory of their own.

    Which they are is seen in one real step with a small layer: those of a parameter's shape, and others (a count of
    steps, say).
    """
    layer = nn.utils.skip_init(nn.Linear, 2, 2)
    for parameter in layer.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimiser = build_optimiser(layer, recipe)
    optimiser.step()
    seen = [value for value in optimiser.state[layer.weight].values() if isinstance(value, Tensor)]
    alike = [value.shape == layer.weight.shape for value in seen]
    return [parameter if same else value for parameter in trained for value, same in zip(seen, alike, strict=True)]
