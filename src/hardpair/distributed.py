"""All that code may know of other processes. With a single process every function returns its input.

The rows of a global batch are split in order: rank 0 has the first rows. DistributedDataParallel averages gradients
over ranks, so a loss that is a mean over the local rows needs nothing from here.
"""

import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
from torch import Tensor
from torch import distributed as dist

from hardpair.errors import UserError

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

TIMEOUT = timedelta(days=1)


def world_size() -> int:
    """Number of processes that share this run."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Rank of this process."""
    return dist.get_rank() if world_size() > 1 else 0


def is_main() -> bool:
    """Whether this is rank 0, which prints and writes for all; also before the process group is initialised."""
    if world_size() > 1:
        return rank() == 0
    alone = int(os.environ.get("WORLD_SIZE", "1")) == 1  # then RANK is somebody else's: a sweep's, a scheduler's
    return alone or int(os.environ.get("RANK", "0")) == 0


def gather(rows: Tensor, *, gradient: bool = False) -> Tensor:
    """All-gather of the local rows (N / world_size, …), in the order of ranks: (N, …).

    With ``gradient``, the gradients of all ranks with respect to the local rows are summed in backward.
    """
    if world_size() == 1:
        return rows
    rows = rows.contiguous()
    if gradient:
        gathered: Tensor = _Gather.apply(rows)
        return gathered
    parts = [torch.empty_like(rows) for _ in range(world_size())]
    dist.all_gather(parts, rows.detach())
    return torch.cat(parts)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(_ctx: Any, rows: Tensor) -> Tensor:
        return gather(rows)

    @staticmethod
    def backward(_ctx: Any, *gradients: Tensor) -> Tensor:
        return local_rows(all_reduce(gradients[0]))


def local_rows(rows: Tensor) -> Tensor:
    """The local part of the rows of the global batch: the inverse of `gather`."""
    return rows.chunk(world_size())[rank()] if world_size() > 1 else rows


def all_reduce(values: Tensor) -> Tensor:
    """The sum over ranks; no gradient."""
    values = values.detach()
    if world_size() > 1:
        values = values.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(values)
    return values


def all_reduce_with_gradient(values: Tensor) -> Tensor:
    """The sum over ranks, with gradient."""
    if world_size() == 1:
        return values
    summed: Tensor = _AllReduce.apply(values)
    return summed


class _AllReduce(torch.autograd.Function):
    @staticmethod
    def forward(_ctx: Any, values: Tensor) -> Tensor:
        return all_reduce(values)

    @staticmethod
    def backward(_ctx: Any, *gradients: Tensor) -> Tensor:
        return all_reduce(gradients[0])


def mean(values: Tensor) -> Tensor:
    """The mean over ranks; no gradient."""
    return all_reduce(values) / world_size() if world_size() > 1 else values.detach()


def undo_ddp_mean(loss: Tensor) -> Tensor:
    """The same loss with its gradient multiplied by the world size.

    For a loss that all ranks know but each can only differentiate in part: the gradients of the parts must be summed,
    and DistributedDataParallel averages them.
    """
    return loss if world_size() == 1 else world_size() * loss - (world_size() - 1) * loss.detach()


def full_tensor(tensor: Tensor) -> Tensor:
    """A sharded tensor (train/parallel.py) as a whole. For a sharded one, all ranks must call this."""
    return tensor.full_tensor() if _is_sharded(tensor) else tensor


def _is_sharded(tensor: Tensor) -> "TypeGuard[DTensor]":
    """Without importing DTensor, which takes a second: where nobody has imported it, no tensor is sharded."""
    dtensor = sys.modules.get("torch.distributed.tensor")
    return dtensor is not None and isinstance(tensor, dtensor.DTensor)


def collect_on_main(tensors: Iterable[tuple[str, Tensor]]) -> dict[str, Tensor]:
    """Named tensors, each as a whole, on the CPU of rank 0; nothing on other ranks.

    Where any tensor is sharded, all ranks must call this.
    """
    kept = {}
    for name, tensor in tensors:
        complete = full_tensor(tensor.detach())
        if is_main():
            kept[name] = complete.cpu().contiguous()
    return kept


def shard_like(like: Tensor, tensor: Tensor) -> Tensor:
    """A tensor that all ranks have, sharded as another one is: the inverse of `full_tensor`."""
    if not _is_sharded(like):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


def any_rank(*flags: bool, device: torch.device) -> list[bool]:
    """For each flag, whether any rank raised it. All ranks must call this."""
    if world_size() == 1:
        return list(flags)
    raised = all_reduce(torch.tensor(flags, dtype=torch.int32, device=device))
    return [bool(number) for number in raised.tolist()]


def require_equal(what: str, *facts: object, device: torch.device) -> None:
    """Raise on all ranks unless these facts are equal on all of them. All ranks must call this."""
    digest = hashlib.sha256(repr(facts).encode()).digest()
    everyone = gather(torch.tensor([list(digest)], dtype=torch.uint8, device=device))
    if not bool((everyone == everyone[0]).all()):
        raise UserError(f"{what}: not the same on all ranks; all machines must see the same run folder and images")


def barrier() -> None:
    """Wait until all ranks are here."""
    if world_size() > 1:
        dist.barrier()


@contextmanager
def patient_barrier() -> Iterator[Callable[[], None]]:
    """A barrier at which ranks may wait for hours, where torch gives up after half of one; all must enter the block.

    A rank that is gone is still noticed at once.
    """
    if world_size() == 1:
        yield lambda: None
        return
    dist.barrier()  # with the usual timeout: a rank that never came is noticed here
    group: Any = dist.new_group(backend="gloo", timeout=TIMEOUT)

    def wait() -> None:
        dist.barrier(group)

    try:
        yield wait
    finally:
        dist.destroy_process_group(group)


@contextmanager
def main_first() -> Iterator[None]:
    """Rank 0 runs the block while the others wait; then local rank 0 of each machine; then the rest.

    Each machine may have its own disk to fill, and that may take hours.
    """
    if world_size() == 1:
        yield
        return
    turn = 0 if is_main() else 1 if os.environ.get("LOCAL_RANK", "0") == "0" else 2
    with patient_barrier() as wait:
        for _ in range(turn):
            wait()
        try:
            yield
        finally:
            for _ in range(2 - turn):
                wait()
