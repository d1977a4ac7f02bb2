"""Checkpoints: a folder a step, ``state.safetensors`` and ``state.json``, whole or not there at all."""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn

from hardpair import distributed
from hardpair.errors import UserError, printable
from hardpair.files import MOST_BYTES, read_plain, write_atomically
from hardpair.models import state_of

KEPT = 2
NOTHING_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # no file, or no folder for it to be in


@dataclass(frozen=True)
class Checkpoint:
    """Everything a run needs to go on as if it had never stopped; random numbers need no state (views/draw.py)."""

    step: int
    tensors: dict[str, Tensor]
    sha256: str = ""  # of the file they come from

    def part(self, name: str) -> dict[str, Tensor]:
        """The tensors of the method, the optimiser or the meter."""
        return {k.removeprefix(f"{name}/"): v for k, v in self.tensors.items() if k.startswith(f"{name}/")}


def save_checkpoint(
    folder: Path,
    step: int,
    method: nn.Module,
    optimiser: torch.optim.Optimizer,
    meter: Mapping[str, Tensor] | None = None,
) -> None:
    """Write a checkpoint under a temporary name, sync, rename; then drop all but the newest two.

    Where the method is cut among processes all of them must take part; the first one writes.
    """
    tensors = _collect(method, optimiser, meter or {})
    if not distributed.is_main():
        return
    _require_finite(step, tensors)
    target, temporary = folder / f"{step:09d}", folder / f".{step:09d}.tmp"
    try:
        _remove(temporary)
        temporary.mkdir(parents=True)
        content = save(tensors)
        write_atomically(temporary / "state.safetensors", content)
        facts = {"step": step, "sha256": hashlib.sha256(content).hexdigest(), "torch": str(torch.__version__)}
        write_atomically(temporary / "state.json", _written(facts))
        _remove(target)  # one of this very step is unreadable, or the same (stopped just after a save)
        _sync(temporary)
        temporary.rename(target)
        _sync(folder)
    except (OSError, UserError) as error:
        _remove(temporary)
        kept = ", ".join(path.name.lstrip("0") for path in _finished(folder)) or "none"
        raise UserError(
            f"cannot save the checkpoint of step {step}: {error}; "
            f"earlier checkpoints are intact (steps: {kept}); free some space and continue with --resume"
        ) from error
    for old in _finished(folder)[:-KEPT]:
        _remove(old)


def remove_leftovers(folder: Path) -> None:
    """What a killed process had begun to save; the sole writer of the folder, and of its processes the first, may."""
    if distributed.is_main():
        for path in folder.glob(".*.tmp"):
            _remove(path)


def load_checkpoint(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that is whole, and a line about each newer one that is not; None where there are none.

    A damaged checkpoint is renamed, by the first process, so that it is not counted among those worth keeping. What
    only this machine cannot read now, because of missing memory or permissions, is left as it is.
    """
    complaints: list[str] = []
    for path in reversed(_finished(folder)):
        try:
            return _read(path), complaints
        except Exception as error:  # whatever its bytes are, the one before it is what counts
            reason = printable(str(error))[:120] or type(error).__name__
            if not _is_damage(error):
                raise UserError(
                    f"{path}: cannot be read here ({reason}), though it may be intact; fix that and continue with "
                    "--resume, or move it away to go on from the checkpoint before it"
                ) from error
            complaints.append(f"{path}: unreadable ({reason}); falling back to the checkpoint before it")
            if distributed.is_main():
                _remove(path.with_name(f"unreadable-{path.name}"))
                path.rename(path.with_name(f"unreadable-{path.name}"))
    if unreadable := sorted(folder.glob("unreadable-*")):
        raise UserError(f"{unreadable[-1]}: no checkpoint can be read; restore one, or start anew with another --run")
    return None, complaints


def _is_damage(error: Exception) -> bool:
    """Whether the checkpoint is at fault, and not a machine that is short of memory, of a right or of its disk."""
    if isinstance(error, OSError):
        return error.errno in NOTHING_THERE
    return not isinstance(error, MemoryError) and "allocate memory" not in str(error)


def restore(checkpoint: Checkpoint, method: nn.Module, optimiser: torch.optim.Optimizer) -> None:
    """Put a checkpoint's tensors back where `save_checkpoint` took them from; all of them fit, or it is refused."""
    try:
        _restore(checkpoint, method, optimiser)
    except (RuntimeError, ValueError, IndexError, KeyError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"the checkpoint of step {checkpoint.step} is of another method or encoder ({reason}); "
            "start anew with another --run"
        ) from error


def _restore(checkpoint: Checkpoint, method: nn.Module, optimiser: torch.optim.Optimizer) -> None:
    own = method.state_dict()
    weights = checkpoint.part("method")
    method.load_state_dict({name: distributed.shard_like(own.get(name, t), t) for name, t in weights.items()})
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in checkpoint.part("optimiser").items():
        index, key = name.split("/")
        parameter = parameters[int(index)]
        if key != "step" and tensor.shape != parameter.shape:  # a fused optimiser would write beyond its end
            raise ValueError(f"optimiser/{name} has another shape")
        state.setdefault(int(index), {})[key] = _laid_out_like(parameter, tensor)
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})


def _laid_out_like(parameter: Tensor, tensor: Tensor) -> Tensor:
    """Fused optimisers walk through memory, so a moment must lie there as its (channels-last) parameter does."""
    if tensor.shape != parameter.shape:
        return tensor.clone()  # it outlives the file that it was mapped from
    return torch.empty_like(parameter).copy_(distributed.shard_like(parameter, tensor))


def _collect(method: nn.Module, optimiser: torch.optim.Optimizer, meter: Mapping[str, Tensor]) -> dict[str, Tensor]:
    tensors = {f"method/{name}": tensor for name, tensor in state_of(method).items()}
    tensors |= {f"meter/{name}": tensor.cpu() for name, tensor in meter.items()}
    state: dict[int, dict[str, Tensor]] = optimiser.state_dict()["state"]
    moments = ((f"optimiser/{index}/{key}", value) for index, part in state.items() for key, value in part.items())
    return tensors | distributed.collect_on_main(moments)


def _require_finite(step: int, tensors: Mapping[str, Tensor]) -> None:
    """Never save what is not a number."""
    if not all(bool(tensor.isfinite().all()) for name, tensor in tensors.items() if name.startswith("method/")):
        raise UserError(
            f"weights are not finite at step {step}; the last checkpoint is from before; a lower learning_rate may help"
        )


def _read(path: Path) -> Checkpoint:
    weights = path / "state.safetensors"
    content = read_plain(path / "state.json", most=MOST_BYTES)
    facts: dict[str, Any] = json.loads(content)
    facts.pop("check")
    if content != _written(facts):
        raise ValueError("its state.json was changed")
    if not weights.is_file():  # opening a pipe would wait for ever
        raise ValueError("it has no state.safetensors")
    with weights.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != facts["sha256"]:
            raise ValueError("its hash is wrong")
    return Checkpoint(int(facts["step"]), load_file(weights), facts["sha256"])  # mapped: there need be no room for all


def _written(facts: dict[str, Any]) -> bytes:
    """The facts and their hash, byte for byte as they lie on disk, so that any change of them shows."""
    check = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return json.dumps({**facts, "check": check}, indent=2).encode()


def _finished(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if path.name.isdigit())


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.is_symlink() or path.exists():
        path.unlink()


def _sync(folder: Path) -> None:
    """A rename is safe from a power cut only once its folder is on disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
