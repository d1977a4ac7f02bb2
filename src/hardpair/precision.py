"""Arithmetic: bfloat16 for encoders and heads where a recipe asks for it, float32 for all that is sensitive."""

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal, ParamSpec, TypeVar, cast

import torch

from hardpair.errors import UserError, shown

Precision = Literal["float32", "bfloat16"]
P = ParamSpec("P")
T = TypeVar("T")


def autocast(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """Around encoders and heads: convolutions and matrix products in this precision; weights stay in float32."""
    if precision == "auto":
        raise ValueError("the precision must be chosen first")
    if precision == "float32" or not torch.amp.is_autocast_available(device.type):  # not on meta, where only shapes are
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16)


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """Around losses and distances: neither autocast nor TF32, whose rounding cannot tell near pairs apart."""
    known = torch.amp.is_autocast_available(device.type)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.autocast(device.type, enabled=False) if known else nullcontext():
            yield
    finally:
        torch.set_float32_matmul_precision(before)


def in_full_precision(loss: Callable[P, T]) -> Callable[P, T]:
    """Compute a loss of the outputs (N, D) of a network in float32, or better, whatever the network computed in."""

    @functools.wraps(loss)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        exact = [to_float32(a) if isinstance(a, torch.Tensor) else a for a in args]
        device = next(a.device for a in args if isinstance(a, torch.Tensor))
        with full_precision(device):
            return cast("Callable[..., T]", loss)(*exact, **kwargs)  # the same arguments, as float32

    return wrapped


def to_float32(outputs: torch.Tensor) -> torch.Tensor:
    """What a network gave under autocast, as float32; other types stay."""
    return outputs.float() if outputs.dtype == torch.bfloat16 else outputs


def allow_tf32() -> None:
    """Let GPUs multiply float32 with TF32's 10 bits of mantissa: several times as fast, and enough for networks.

    Convolutions may do so anyway.
    """
    torch.set_float32_matmul_precision("high")


def has_bfloat16(device: torch.device) -> bool:
    """Whether the hardware computes with bfloat16; others emulate it, which is slower than float32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type != "cpu":
        return False
    cpu = torch.cpu
    return bool(cpu._is_avx512_bf16_supported() or cpu._is_amx_tile_supported())  # noqa: SLF001


def emulation(precision: str, device: torch.device) -> str:
    """In brackets, that the hardware has no such arithmetic; nothing where it has."""
    if precision == "float32" or has_bfloat16(device):
        return ""
    return " (which this hardware has to emulate: slower than float32)"


def for_evaluation(precision: str, device: torch.device) -> Precision:
    """What was asked for; "auto" is bfloat16 where the hardware has it."""
    if precision not in ("float32", "bfloat16", "auto"):
        raise UserError(f"precision: must be float32, bfloat16 or auto, not {shown(precision)}")
    if precision == "auto":
        return fastest(device)
    return "bfloat16" if precision == "bfloat16" else "float32"


def fastest(device: torch.device) -> Precision:
    """bfloat16 where the hardware has it."""
    return "bfloat16" if has_bfloat16(device) else "float32"
