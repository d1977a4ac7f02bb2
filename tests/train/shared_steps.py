"""What a few training steps come to, on however many processes share them."""

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.distributed.tensor import DTensor

from hardpair import distributed
from hardpair.data import Images
from hardpair.losses import dissimilarity, hard_negatives
from hardpair.methods import METHODS
from hardpair.precision import autocast
from hardpair.recipes import Recipe
from hardpair.train import gallery
from hardpair.train.parallel import process_group
from hardpair.train.step import Stepper
from hardpair.views import batched, randaugment, view

BATCH, SIZE, STEPS = 16, 32, 2
HNPM = {
    "head_hidden": 8,
    "head_outputs": 8,
    "teacher_view": "balanced",
    "threshold": 1.2,
    "norm": "l2",
    "alpha_neg": 0.8,
}
SMALL_QUEUE = {"queue": 40, "momentum": 0.9}
CASES = {
    "hnpm": HNPM,
    "hnpm, every pair": {**HNPM, "mine": False},
    "hnpm, the nearest": {**HNPM, "nearest": True},
    "hnpm, soft": {**HNPM, "softness": 0.2, "small_views": 1},
    "hnpm, soft, the nearest": {**HNPM, "softness": 0.2, "nearest": True},
    "hnpm, one network": {**HNPM, "softness": 0.2, "positive_in_sum": True, "share_weights": True},
    "hnpm, one trained": {**HNPM, "share_weights": True, "block_student_gradient": False},
    "hnpm, student by gradient": {**HNPM, "block_student_gradient": False},
    "simclr": {},
    "simclrv2": {},
    "simclrv2, lars": {},
    "moco": SMALL_QUEUE,
    "moco, in splits": {**SMALL_QUEUE, "splits": 4, "symmetric": True},
    "moco, in splits, small views": {**SMALL_QUEUE, "splits": 4, "small_views": 1},
    "byol": {"head_hidden": 8, "head_outputs": 8},
    "byol, small views": {"head_hidden": 8, "head_outputs": 8, "small_views": 1},
    "simsiam": {"head_outputs": 8, "predictor_hidden": 4},
    "simclr, small views": {"small_views": 2},
    "cmc": {"negatives": 0},
    "cpc": {"patch": 8, "context_hidden": 8},
    "cpc, in groups": {"patch": 8, "context_hidden": 8, "group": 4},
    "infomin": SMALL_QUEUE,
    "infomin, in splits": {**SMALL_QUEUE, "splits": 4},
    "instdisc": {"negatives": 12},
    "supervised": {},
}
TIMM = {"vit": "test_vit", "convnext": "test_convnext"}
"""The last word of further cases, with encoders of timm."""
MICRO = ", in micro-batches"
IN_MICRO_BATCHES = {name + MICRO: CASES[name] for name in ("cpc", "hnpm, soft", "simclr")}
"""With batch norm, parts of a batch on several processes are other ones than on a single process."""


def photos() -> Images:
    """Random pixels, but always the same."""
    pixels = torch.randint(
        256, (3 * BATCH, 3, SIZE, SIZE), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    return Images(pixels, torch.arange(3 * BATCH) % 4, tuple("abcd"), name="noise/train")


def recipe_of(case: str, *, half: bool = False) -> Recipe:
    """Two epochs with a tiny encoder, in half precision or not."""
    width = 0.25 if case == "cmc" else 0.125
    method, _, form = case.partition(", ")
    shape = {"encoder": TIMM[form], "small_images": False} if form in TIMM else {"encoder": "resnet10", "width": width}
    fields = {"image_size": SIZE, **shape, "epochs": 2, "batch_size": BATCH}
    optimiser = "lars" if case.endswith("lars") else "adam"
    fields["precision"] = "bfloat16" if half else "float32"
    fields["micro_batch"] = 3 if case.endswith(MICRO) else 0
    settings = {**CASES, **IN_MICRO_BATCHES}[method if form in TIMM else case]
    return Recipe(name="small", method=method, optimiser=optimiser, learning_rate=0.01, settings=settings, **fields)


def record(case: str, dtype: torch.dtype, *, shard: bool = False, half: bool = False) -> dict[str, Tensor]:
    """Images, views, loss, gradients and mined pairs of a first step, then the state after some more."""
    set_precision(dtype)
    try:
        stepper = Stepper(recipe_of(case, half=half), photos(), torch.device("cpu"), shard=shard)
        found = {**first_step(stepper), **after_steps(stepper)}
        if shard:
            in_parts(stepper)
        return found
    finally:
        set_precision(torch.float32)


def in_parts(stepper: Stepper) -> None:
    """No process holds the whole of any weight, be it trained or averaged, but for a class token's one row."""
    for name, parameter in stepper.method.named_parameters():
        assert isinstance(parameter, DTensor), f"{name} is not cut"
        if len(parameter) < distributed.world_size():
            continue
        assert parameter.to_local().numel() < parameter.numel(), f"{name} is held as a whole"


def set_precision(dtype: torch.dtype) -> None:
    """Views keep constants in the precision of their first use."""
    torch.set_default_dtype(dtype)
    for module in (batched, randaugment, view):
        for thing in vars(module).values():
            if hasattr(thing, "cache_clear"):
                thing.cache_clear()


def first_step(stepper: Stepper) -> dict[str, Tensor]:
    """Forward and backward; nothing is moved."""
    stepper.method.train()
    rows = stepper.rows(0)
    views = stepper.method.views(stepper.images.batch(rows), stepper.draw(0, rows))
    with autocast(stepper.recipe.precision, stepper.device):
        outputs = stepper.forward(views)
    outputs["loss"].backward()
    found = {"rows": distributed.gather(rows), "view": distributed.gather(views[0])}
    found |= {f"mean/{name}": distributed.mean(value) for name, value in outputs.items() if value.ndim == 0}
    trained = ((name, p) for name, p in stepper.method.named_parameters() if p.requires_grad)
    found |= {f"gradient/{name}": distributed.full_tensor(p.grad).clone() for name, p in trained if p.grad is not None}
    if getattr(stepper.method, "student", None) is not None:
        found["mined"] = mined(stepper, views)
        found["gallery"] = shown(stepper)
    stepper.method.zero_grad(set_to_none=True)
    return found


@torch.no_grad()
def mined(stepper: Stepper, views: list[Tensor]) -> Tensor:
    """The whole matrix of mined pairs: each process has the columns of its own teachers."""
    method = stepper.method
    student, teacher = distributed.gather(method.student(views[1])), method.head(method.encoder(views[0]))
    distance = dissimilarity(student, teacher, norm="l2")
    return hard_negatives(distributed.gather(distance.T.contiguous()).T.contiguous(), threshold=method.threshold)


def shown(stepper: Stepper) -> Tensor:
    """The pairs that people are shown, of a pass over all images."""
    found = gallery._mine(stepper.method, stepper.images, stepper.draw(0, stepper.rows(0)).within("gallery"))
    assert found is not None
    return torch.stack(found[:2])


def after_steps(stepper: Stepper) -> dict[str, Tensor]:
    """Weights, averages, statistics and memories."""
    for step in range(STEPS):
        assert stepper.take(step).sound
    return {
        f"state/{name}": distributed.full_tensor(value).clone() for name, value in stepper.method.state_dict().items()
    }


def main(folder: Path, precision: str, cases: Sequence[str], shard: bool = False) -> None:
    """Some cases, one after the other; each leaves a file."""
    assert {*METHODS, "supervised"} == {case.split(",")[0] for case in CASES}
    torch.set_num_threads(1)
    with process_group(torch.device("cpu")):
        for case in cases:
            dtype = torch.float64 if precision == "double" else torch.float32
            found = record(case, dtype, shard=shard, half=precision == "bfloat16")
            save(folder / f"{case}.safetensors", found)


def save(path: Path, found: dict[str, Tensor]) -> None:
    """Also that all processes have the same state, which no gathering would show."""
    for name, value in found.items():
        if name.startswith(("state/", "gradient/")):
            theirs = distributed.gather(value[None])
            assert all(torch.equal(value, other) for other in theirs), f"{path.stem}: {name} differs among processes"
    if distributed.is_main():
        save_file({name: value.contiguous() for name, value in found.items()}, path)
