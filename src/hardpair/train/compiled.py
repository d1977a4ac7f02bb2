"""torch.compile for the encoders of a run (`--compile`), checked on the run's first batch.

Compiled code sums in another order. The loss then differs by about 1e-7, but gradients by 1e-3, in deep encoders by a
tenth: a ReLU whose input is nearly zero passes its gradient or does not. So the check measures how far the results move
when every weight changes by a millionth, which is about what rounding does, and allows a few times that.
"""

import copy
import functools
from collections.abc import Callable

import torch
from timm.models.resnet import ResNet
from torch import Tensor, nn

from hardpair import distributed
from hardpair.errors import printable
from hardpair.methods import Method
from hardpair.models import DEPTHS, Encoder
from hardpair.precision import autocast
from hardpair.train.parallel import averaging_gradients
from hardpair.train.run_folder import Log
from hardpair.train.step import STATISTICS, Stepper

BACKEND = "inductor"
ALLOWED = 10  # times as far as a change of the weights by what rounding is; wrong code is wrong by more
ROUNDING = {"float32": 1e-6, "bfloat16": 4e-3}  # relative change of the weights that stands for it
# Allowed anyway: the change may happen to switch no ReLU.
LEAST = {
    "float32": {"loss": 1e-5, "gradients": 2e-2, "statistics": 1e-5},
    "bfloat16": {"loss": 1e-2, "gradients": 2e-1, "statistics": 1e-2},
}

Results = dict[str, list[Tensor]]


def compile_if_wanted(stepper: Stepper, log: Log, step: int, *, wanted: bool) -> str:
    """Compile the encoders if asked to and if the check passes; returns a line to print, empty if there is none.

    A resumed run keeps what its log says, whatever ``wanted`` is. All ranks do the same.
    """
    before = log.last("compile") if distributed.is_main() else None
    known, used = distributed.any_rank(bool(before), bool(before and before.get("used") is True), device=stepper.device)
    if not (used if known or step > 0 else wanted):
        return "not compiled: the run began without torch.compile, and a resumed run keeps that" if wanted else ""
    if distributed.is_main():
        print("compiling the encoders; this may take a minute or two", flush=True)
    torch.compiler.reset()  # torch limits how often it compiles a function, counting earlier runs of this process
    # A missing compiler fails on a tiny function: no rank is left waiting for this one in the middle of a network.
    wrong = _on_all_ranks(lambda: _try_compiler(stepper.device), stepper.device)
    wrong = wrong or _on_all_ranks(lambda: _disagreement(stepper, step), stepper.device)
    if not wrong:
        compile_encoders(stepper.method)
    text = f"not compiled: {wrong}" if wrong else "compiled; loss and gradients agree up to rounding"
    log.write("compile", step=step, used=not wrong, text=text)
    return text


def compile_encoders(method: Method) -> None:
    """Only their trunks, since some methods call those and not the encoder; the names of weights stay as they are."""
    for module in method.modules():
        timm_trunk = isinstance(module, Encoder) and module.settings["name"] not in DEPTHS
        if isinstance(module, ResNet) or timm_trunk:
            (module.trunk if isinstance(module, Encoder) else module).compile(backend=BACKEND, dynamic=False)


def _on_all_ranks(check: Callable[[], str], device: torch.device) -> str:
    """What is wrong on this rank or another, if anything."""
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):  # a compiler may draw random numbers
            wrong = check()
    except Exception as error:  # compilers fail in many ways
        said = printable(" ".join(str(error).split()))
        missing = "C++ compiler" in said or "C compiler" in said
        wrong = "this machine has no C++ compiler" if missing else f"the compiler failed ({said[:120]})"
    failed = distributed.any_rank(bool(wrong), device=device)[0]
    return wrong or ("it failed on another rank" if failed else "")


def _try_compiler(device: torch.device) -> str:
    torch.compile(lambda x: x.sin() + 1, backend=BACKEND)(torch.zeros(8, device=device))
    return ""


def _disagreement(stepper: Stepper, step: int) -> str:
    """Which result of a step is further from that of plain code than rounding explains, if any."""
    plain = _results(stepper, step, lambda _: None)
    precision = stepper.recipe.precision
    moved = _errors(_results(stepper, step, functools.partial(_change_weights, by=ROUNDING[precision])), plain)
    for name, error in _errors(_results(stepper, step, compile_encoders), plain).items():
        limit = max(LEAST[precision][name], ALLOWED * moved[name])
        if not error <= limit:  # nor is NaN
            return f"the {name} differ by {error:.1g} (relative), and rounding explains at most {limit:.1g}"
    return ""


def _results(stepper: Stepper, step: int, change: Callable[[Method], None]) -> Results:
    """What a step takes from forward and backward, with a changed copy of the method: the run itself is untouched."""
    rows = stepper.rows(step)
    views = stepper.method.views(stepper.images.batch(rows).to(stepper.device), stepper.draw(step, rows))
    method = copy.deepcopy(stepper.method).train()
    change(method)
    ddp = distributed.world_size() > 1
    forward = averaging_gradients(method, stepper.device) if ddp else method
    stepper.seed_layers(step)
    with autocast(stepper.recipe.precision, stepper.device):
        loss: Tensor = forward(views)["loss"]
    loss.backward()
    return {
        "loss": [loss.detach()],
        "gradients": [p.new_zeros(p.shape) if p.grad is None else p.grad for p in method.parameters()],
        "statistics": [b.float() for name, b in method.named_buffers() if name.endswith(STATISTICS)],
    }


@torch.no_grad()
def _change_weights(method: Method, *, by: float) -> None:
    generator = torch.Generator(next(method.parameters()).device).manual_seed(0)
    for parameter in method.parameters():
        parameter.mul_(1 + by * torch.empty_like(parameter).uniform_(-1, 1, generator=generator))


def _errors(ours: Results, theirs: Results) -> dict[str, float]:
    """Norm of each difference, relative to the norm of theirs."""
    found = {}
    for name, expected in theirs.items():
        difference = [a - b for a, b in zip(ours[name], expected, strict=True)]
        found[name] = float(nn.utils.get_total_norm(difference) / nn.utils.get_total_norm(expected).clamp_min(1e-30))
    return found
