"""Devices and processes: the device of each rank, the process group that torchrun started, DDP, FSDP2."""

import inspect
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from timm.models.resnet import BasicBlock, Bottleneck
from timm.models.sknet import SelectiveKernelBottleneck
from torch import distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.fsdp import fully_shard
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from hardpair import distributed
from hardpair.errors import UserError
from hardpair.methods import Method
from hardpair.precision import allow_tf32

BLOCKS = (BasicBlock, Bottleneck, SelectiveKernelBottleneck)


def pick_device(name: str) -> torch.device:
    """ "auto" is CUDA where there is one, else the CPU; anything else is taken by name. GPUs may use TF32 from here on.

    Of several processes on a machine, each takes the GPU of its local rank.
    """
    try:
        device = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name)
        if device.type == "cuda":
            device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", device.index or 0)))
            torch.cuda.set_device(device)
            allow_tf32()
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        if "Expected one of" in reason:  # and twenty types that torch knows follow
            reason = "no such device; a GPU is called cuda" if name == "gpu" else "no such device"
        raise UserError(f"device: {name!r} cannot be used ({reason}); try auto or cpu") from error
    return device


def started_together() -> int:
    """How many processes torchrun started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def was_restarted() -> bool:
    """Whether torchrun restarted these processes after one of them had died; each machine counts its own restarts."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


@contextmanager
def process_group(device: torch.device) -> Iterator[None]:
    """A process group for the length of the block; a single process, or one in a group already, needs none."""
    if started_together() == 1 or dist.is_initialized():
        yield
        return
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"  # features and votes lie on the CPU
    try:
        store, rank, world_size = next(iter(rendezvous("env://")))
    except (ValueError, RuntimeError, OSError) as error:
        raise UserError(f"WORLD_SIZE: the other processes cannot be found ({error}); start with torchrun") from error
    # A store of torchrun's outlives a restart, and with it the addresses of the dead: without a name of its own for
    # each start, the new processes wait for the old ones for ever. Machines may count the starts differently, so
    # several need a new store each time (docs/explanation/scale.md), and a name would only keep them apart.
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        store = PrefixStore(f"start-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    dist.init_process_group(backend, store=store, rank=rank, world_size=world_size)
    try:
        yield
    finally:
        dist.destroy_process_group()


def averaging_gradients(method: Method, device: torch.device) -> DistributedDataParallel:
    """The method on one of several ranks (DDP).

    Buffers are not broadcast at every step: memories and statistics are the same on all ranks by themselves.
    """
    device_ids: Any = [device] if device.type == "cuda" else None
    known = inspect.signature(DistributedDataParallel).parameters
    broadcast = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"  # before torch 2.15
    options: dict[str, Any] = {broadcast: False}
    return DistributedDataParallel(method, device_ids, **options)


def cut(method: Method, device: str) -> Method:
    """Shard a method that is the same on all ranks (FSDP2), for encoders too large for one GPU.

    Each rank keeps a part of every weight, of its average, gradient and optimiser state. A piece of the network is
    gathered when it is its turn and freed again. The method's forward, and that of each part of it, work as before.
    """
    mesh = init_device_mesh(device, (distributed.world_size(),))
    for piece in pieces(method):
        fully_shard(piece, mesh=mesh)
    fully_shard(method, mesh=mesh)
    return method


def pieces(module: nn.Module) -> Iterator[nn.Module]:
    """What is gathered at a time: residual blocks, and outside of them the layers one by one.

    Methods call encoders, heads and parts of them as they like, so nothing larger than a block can be counted on to be
    called as a whole.
    """
    if isinstance(module, BLOCKS) or next(module.parameters(recurse=False), None) is not None:
        yield module
        return
    for child in module.children():
        yield from pieces(child)
