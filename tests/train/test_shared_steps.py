"""One, two and four real processes give the same images, views, mined pairs, losses, gradients and weights."""

import pytest
import shared_steps
import torch
from safetensors.torch import load_file
from shared_steps import CASES, photos, recipe_of, record
from together import together
from torch import Tensor

from hardpair import distributed
from hardpair.train.step import Stepper

SOME = ("hnpm", "hnpm, soft", "simclr", "moco, in splits")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "cases"),
    [
        pytest.param(2, tuple(CASES), id="two"),
        pytest.param(4, SOME, id="four"),
        pytest.param(4, tuple(CASES), id="four, all", marks=pytest.mark.soak),
    ],
)
def test_the_same_on_several_processes(count, cases, tmp_path):
    together(count, shared_steps.main, tmp_path, "double", cases)
    for case in cases:
        theirs, ours = load_file(tmp_path / f"{case}.safetensors"), record(case, torch.float64)
        assert theirs.keys() == ours.keys()
        for name, value in ours.items():
            assert distance(theirs[name], value) <= limit(case, name), f"{case}: {name}"


@pytest.mark.slow
def test_the_same_when_the_method_is_cut_among_processes(tmp_path):
    """FSDP2 beside one process, which two that average gradients equal too, as the test above says."""
    cases = ("hnpm, soft", "simclrv2, lars", "moco", "cmc")
    together(2, shared_steps.main, tmp_path, "double", cases, True)
    for case in cases:
        theirs, ours = load_file(tmp_path / f"{case}.safetensors"), record(case, torch.float64)
        assert theirs.keys() == ours.keys()
        for name, value in ours.items():
            assert distance(theirs[name], value) <= limit(case, name), f"{case}: {name}"


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.soak)])
def test_nearly_the_same_in_single_precision(count, tmp_path):
    cases = ("hnpm", "hnpm, soft")
    together(count, shared_steps.main, tmp_path, "single", cases)
    for case in cases:
        theirs, ours = load_file(tmp_path / f"{case}.safetensors"), record(case, torch.float32)
        assert torch.equal(theirs["mined"], ours["mined"])
        for name, value in ours.items():
            if name.startswith(("gradient/", "mean/")):
                assert distance(theirs[name], value) <= 1e-5, f"{case}: {name}"


def test_statistics_are_sent_all_at_once(monkeypatch):
    """Where batch norms see a part of the batch each: one message a step, and not one for each of hundreds."""
    stepper, sent = Stepper(recipe_of("moco, in splits"), photos(), torch.device("cpu")), []
    statistics = [buffer for group in stepper.statistics for buffer in group]
    before = [buffer.clone() for buffer in statistics]
    monkeypatch.setattr(distributed, "world_size", lambda: 2)
    monkeypatch.setattr(distributed, "mean", lambda values: sent.append(values) or values + 1)
    stepper._agree_on_statistics()
    assert len(sent) == 1
    for old, new in zip(before, statistics, strict=True):
        assert torch.equal(new, old + 1 if old.is_floating_point() else old)


def limit(case: str, name: str) -> float:
    """How far a value may be off."""
    if name in ("rows", "view", "mined", "gallery"):
        return 0.0
    if name.startswith(("gradient/", "mean/")):
        return 1e-12
    if name.endswith("num_batches_tracked") or (case == "moco, in splits" and "running_" in name):
        return float("inf")  # splits are shared out, so each process sees fewer of them
    return 1e-9


def distance(a: Tensor, b: Tensor) -> float:
    """The largest difference, as a share of the largest value, or of 1 where all values are smaller."""
    a, b = a.double(), b.double()
    return float((a - b).abs().max() / max(1.0, float(b.abs().max())))
