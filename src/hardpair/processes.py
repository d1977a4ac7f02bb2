"""What the processes of one run tell each other. With a single process every function gives back what it was given.

The rows of a global batch are dealt out in order: the first process has the first rows. DistributedDataParallel
averages gradients over processes, so a loss that is a mean over a process's own rows needs nothing from here.
"""

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
from torch import Tensor
from torch import distributed as dist

from hardpair.errors import UserError

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

PATIENCE = timedelta(days=1)


def count() -> int:
    """How many processes share this run."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def place() -> int:
    """Which of them this is, from 0."""
    return dist.get_rank() if count() > 1 else 0


def is_first() -> bool:
    """Whether this process speaks and writes for all, those included that torchrun started and that have not joined."""
    if count() > 1:
        return place() == 0
    alone = int(os.environ.get("WORLD_SIZE", "1")) == 1  # then RANK is somebody else's: a sweep's, a scheduler's
    return alone or int(os.environ.get("RANK", "0")) == 0


def gather(rows: Tensor, *, gradient: bool = False) -> Tensor:
    """The rows (N / processes, …) of all processes, in order: (N, …).

    With ``gradient``, what every process does with the rows of this one flows back to it.
    """
    if count() == 1:
        return rows
    rows = rows.contiguous()
    if gradient:
        gathered: Tensor = _Gather.apply(rows)
        return gathered
    parts = [torch.empty_like(rows) for _ in range(count())]
    dist.all_gather(parts, rows.detach())
    return torch.cat(parts)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(_ctx: Any, rows: Tensor) -> Tensor:
        return gather(rows)

    @staticmethod
    def backward(_ctx: Any, *gradients: Tensor) -> Tensor:
        return own_rows(total(gradients[0]))


def own_rows(rows: Tensor) -> Tensor:
    """This process's part of the rows of the global batch: the reverse of `gather`."""
    return rows.chunk(count())[place()] if count() > 1 else rows


def total(values: Tensor) -> Tensor:
    """The sum over processes; no gradient."""
    values = values.detach()
    if count() > 1:
        values = values.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(values)
    return values


def total_with_gradient(values: Tensor) -> Tensor:
    """The sum over processes; what every process does with it flows back to each."""
    if count() == 1:
        return values
    summed: Tensor = _Total.apply(values)
    return summed


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(_ctx: Any, values: Tensor) -> Tensor:
        return total(values)

    @staticmethod
    def backward(_ctx: Any, *gradients: Tensor) -> Tensor:
        return total(gradients[0])


def mean(values: Tensor) -> Tensor:
    """The mean over processes; no gradient."""
    return total(values) / count() if count() > 1 else values.detach()


def as_part_of_sum(loss: Tensor) -> Tensor:
    """The same loss with its gradient multiplied by the number of processes.

    For a loss that all processes know but each can only differentiate in part: the gradients of the parts are to be
    added up, where DistributedDataParallel will average them.
    """
    return loss if count() == 1 else count() * loss - (count() - 1) * loss.detach()


def whole(tensor: Tensor) -> Tensor:
    """A tensor that is cut among processes (train/shard.py), put together; of such a one all processes must ask."""
    return tensor.full_tensor() if _is_cut(tensor) else tensor


def _is_cut(tensor: Tensor) -> "TypeGuard[DTensor]":
    """Where nobody has imported what cuts tensors, which would take a second of every start, none is cut."""
    cutting = sys.modules.get("torch.distributed.tensor")
    return cutting is not None and isinstance(tensor, cutting.DTensor)


def kept_by_first(tensors: Iterable[tuple[str, Tensor]]) -> dict[str, Tensor]:
    """Named tensors, put together one after the other, in the main memory of the first process; the others keep none.

    All processes must ask where any tensor is cut among them.
    """
    kept = {}
    for name, tensor in tensors:
        complete = whole(tensor.detach())
        if is_first():
            kept[name] = complete.cpu().contiguous()
    return kept


def part_like(like: Tensor, tensor: Tensor) -> Tensor:
    """A tensor that all processes have, cut as another one is: the reverse of `whole`."""
    if not _is_cut(like):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


def any_says(*flags: bool, device: torch.device) -> list[bool]:
    """For each flag, whether any process raised it. All processes must ask."""
    if count() == 1:
        return list(flags)
    raised = total(torch.tensor(flags, dtype=torch.int32, device=device))
    return [bool(number) for number in raised.tolist()]


def require_same(what: str, *facts: object, device: torch.device) -> None:
    """Refuse, on all processes, what is not the same on all of them. All processes must ask."""
    digest = hashlib.sha256(repr(facts).encode()).digest()
    everyone = gather(torch.tensor([list(digest)], dtype=torch.uint8, device=device))
    if not bool((everyone == everyone[0]).all()):
        raise UserError(f"{what}: not the same for all processes; all machines must see the same run folder and images")


@contextmanager
def first_before_others() -> Iterator[None]:
    """The first process does the block while the others wait; then the first of each machine; then the rest.

    Each machine may have a disk of its own to fill. That may take hours, so they wait in a group of their own, which is
    more patient than torch's half hour.
    """
    if count() == 1:
        yield
        return
    turn = 0 if is_first() else 1 if os.environ.get("LOCAL_RANK", "0") == "0" else 2
    dist.barrier()  # where one is gone, the others notice it here, and need no patience
    group: Any = dist.new_group(backend="gloo", timeout=PATIENCE)
    for _ in range(turn):
        dist.barrier(group)
    try:
        yield
    finally:
        for _ in range(2 - turn):
            dist.barrier(group)
        dist.destroy_process_group(group)
