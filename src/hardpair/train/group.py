"""The processes that torchrun started, brought together for one run."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from hardpair.errors import UserError


def started_together() -> int:
    """How many processes torchrun started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def was_restarted() -> bool:
    """Whether torchrun started these processes again after one of them had died; each machine counts for itself."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


@contextmanager
def process_group(device: torch.device) -> Iterator[None]:
    """Join the others for the length of the block; alone, or joined already, do nothing."""
    if started_together() == 1 or dist.is_initialized():
        yield
        return
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"  # features and votes lie on the CPU
    try:
        store, place, count = next(iter(rendezvous("env://")))
    except (ValueError, RuntimeError, OSError) as error:
        raise UserError(f"WORLD_SIZE: the other processes cannot be found ({error}); start with torchrun") from error
    # A store of torchrun's outlives a restart, and with it the addresses of the dead: without a name of its own for
    # each start, the new processes wait for the old ones for ever. Machines may count the starts differently, so
    # several need a new store each time (docs/explanation/scale.md), and a name would only keep them apart.
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        store = PrefixStore(f"start-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    dist.init_process_group(backend, store=store, rank=place, world_size=count)
    try:
        yield
    finally:
        dist.destroy_process_group()
