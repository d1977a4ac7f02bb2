"""torch.compile for a run, where it is faster and gives the same: found out before the first step, on copies.

Compiled code adds up in another order, so its last bits are others. Loss and statistics of batch norms then differ by
some 1e-7, but gradients by 1e-3 and in deep encoders by a tenth, because a ReLU whose input is all but zero passes its
gradient or does not. That is float32's doing: uncompiled gradients are as far from those in double precision. So it is
measured how far each moves when every weight changes by a millionth; the compiled ones may be a few times as far.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
from timm.models.resnet import ResNet
from torch import Tensor

from hardpair import distributed
from hardpair.errors import printable
from hardpair.methods import Method
from hardpair.train.log import Log
from hardpair.train.step import Stepper
from hardpair.train.trial import Trial, apart, gain, rounding

BACKEND = "inductor"
ROUNDING = {"loss": 2e-6, "gradients": 4e-3, "statistics": 2e-6}  # at least: a few nudges may happen to switch no ReLU
ALLOWED = 5  # times as far as rounding goes; wrong code is wrong by more
LEAST = 1.02  # times as fast; a smaller gain may be chance
MOST_WORDS = 120  # characters of what a compiler says

Made = TypeVar("Made")


class Refused(Exception):  # noqa: N818
    """Why a run is not compiled, in words."""


@dataclass(frozen=True)
class Choice:
    """Whether a run is compiled, why in words, and how many times as fast it is then, where that was measured."""

    used: bool
    text: str
    ratio: float | None = None


def settle(stepper: Stepper, log: Log, step: int, *, wanted: bool) -> str:
    """Compile the encoders of the method, or not; gives what there is to say, nothing where nobody asks.

    A run that begins takes what is better. One that goes on does as before, or its last bits would be others by
    accident; so the choice is written to its log. All processes make the same one.
    """
    before = log.last("compile") if distributed.is_main() else None
    known, used = distributed.any_rank(bool(before), bool(before and before.get("used") is True), device=stepper.device)
    if not (wanted or used):
        return ""
    choice = _choose(stepper, step, wanted=wanted, known=known, used=used)
    if choice.used:
        compile_encoders(stepper.method)
    log.write("compile", step=step, used=choice.used, text=choice.text, ratio=choice.ratio)
    return choice.text


def compile_encoders(method: Method) -> None:
    """Only their ResNets, since some methods call those and not the encoder; the names of weights stay as they are."""
    for module in method.modules():
        if isinstance(module, ResNet):
            module.compile(backend=BACKEND, dynamic=False)


def _choose(stepper: Stepper, step: int, *, wanted: bool, known: bool, used: bool) -> Choice:
    if not wanted:
        return Choice(False, "no longer compiled, since --compile was not given: its last bits will be others")
    if step > 0 and not known:
        return Choice(False, "not compiled: the run began without --compile")
    if known and not used:
        return Choice(False, "not compiled, as before")
    if distributed.is_main():
        print("compiling the encoders, which may take some minutes", flush=True)
    torch.compiler.reset()  # torch limits how much it compiles, and earlier runs of this process would count
    try:
        # Whatever a compiler may draw at random, the run does not notice.
        with torch.random.fork_rng([stepper.device] if stepper.device.type == "cuda" else []):
            return _once_more(stepper, step) if used else _measure(stepper, step)
    except Refused as reason:
        return Choice(False, f"no longer compiled: {reason}" if used else f"not compiled: {reason}")


def _once_more(stepper: Stepper, step: int) -> Choice:
    """A failure of the compiler should show here and not in a step of the run, which finds everything compiled."""
    _on_all(lambda: Trial(stepper, step, compile_encoders).take(), stepper.device)
    return Choice(True, "compiled, as before")


def _measure(stepper: Stepper, step: int) -> Choice:
    _on_all(lambda: _try_compiler(stepper.device), stepper.device)
    eager, compiled = _on_all(lambda: (Trial(stepper, step), Trial(stepper, step, compile_encoders)), stepper.device)
    distances = _on_all(lambda: _require_agreement(stepper, step, eager, compiled), stepper.device)
    ratio = _on_all(lambda: _require_gain(eager, compiled), stepper.device)
    agree = f"the loss agrees within {distances['loss']:.1g}, gradients within {distances['gradients']:.1g}"
    return Choice(True, f"compiled: {ratio:.2f} times as fast; {agree}", round(ratio, 3))


def _require_agreement(stepper: Stepper, step: int, eager: Trial, compiled: Trial) -> dict[str, float]:
    expected = eager.results()
    distances, explained = apart(compiled.results(), expected), rounding(stepper, step, expected)
    for name, distance in distances.items():
        limit = ALLOWED * max(explained[name], ROUNDING[name])
        if not distance <= limit:  # nor is what is not a number
            subject = "the loss differs" if name == "loss" else f"{name} differ"
            raise Refused(f"{subject} by {distance:.1g}, and rounding explains {limit:.1g} at most")
    return distances


def _require_gain(eager: Trial, compiled: Trial) -> float:
    ratio = gain(eager, compiled)
    if ratio < LEAST:
        raise Refused(f"no faster ({ratio:.2f} times)")
    return ratio


def _on_all(work: Callable[[], Made], device: torch.device) -> Made:
    """Do it on all processes; where it fails on one of them, none goes on."""
    made, reason = None, None
    try:
        made = work()
    except Refused as refused:
        reason = str(refused)
    except Exception as error:  # compilers fail in many ways
        reason = _in_words(error)
    failed = distributed.any_rank(reason is not None, device=device)[0]
    if made is None or failed:
        raise Refused(reason or "another process could not")
    return made


def _in_words(error: Exception) -> str:
    said = " ".join(str(error).split())
    if "C++ compiler" in said or "C compiler" in said:
        return "this machine has no C++ compiler"
    return f"the compiler failed ({printable(said)[:MOST_WORDS] or type(error).__name__})"


def _try_compiler(device: torch.device) -> Tensor:
    """Where there is none, this fails before other processes wait for this one in the middle of a network."""
    compiled: Tensor = torch.compile(lambda x: x.sin() + 1, backend=BACKEND)(torch.zeros(8, device=device))
    return compiled
