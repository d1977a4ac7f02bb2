"""A method cut among processes, for encoders too large for one GPU (FSDP2).

Each process keeps a part of every weight, of its average, gradient and optimiser state; a piece of the network is put
together when it is its turn and taken apart again.
"""

from collections.abc import Iterator

from timm.models.resnet import BasicBlock, Bottleneck
from timm.models.sknet import SelectiveKernelBottleneck
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from hardpair import distributed
from hardpair.methods import Method

BLOCKS = (BasicBlock, Bottleneck, SelectiveKernelBottleneck)


def cut(method: Method, device: str) -> Method:
    """Cut a method that is the same on all processes; its own forward, and that of each part of it, work as before."""
    mesh = init_device_mesh(device, (distributed.world_size(),))
    for piece in pieces(method):
        fully_shard(piece, mesh=mesh)
    fully_shard(method, mesh=mesh)
    return method


def pieces(module: nn.Module) -> Iterator[nn.Module]:
    """What is put together at a time: residual blocks, and outside of them the layers one by one.

    Methods call encoders, heads and parts of them as they like, so nothing larger than a block can be counted on to be
    called as a whole.
    """
    if isinstance(module, BLOCKS) or next(module.parameters(recurse=False), None) is not None:
        yield module
        return
    for child in module.children():
        yield from pieces(child)
