"""Several ranks give what one gives: images, views, mined pairs, losses, gradients, weights; also sharded."""

import os
from pathlib import Path
from typing import Any

import lives
import pytest
import shared_steps
import torch
from safetensors.torch import load_file
from shared_steps import CASES, IN_MICRO_BATCHES, record
from together import together
from torch import Tensor, nn

from hardpair.errors import UserError
from hardpair.methods import METHODS, Method
from hardpair.models import build_encoder, load_encoder
from hardpair.train import checkpoints, parallel, pretrain, step
from hardpair.train.parallel import BLOCKS, pieces

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


@pytest.mark.slow
@pytest.mark.parametrize("shard", [False, True], ids=["whole", "cut"])
def test_in_micro_batches(shard, tmp_path):
    """All processes have the same in the end (shared_steps.save), and without batch norm what a single one has."""
    together(2, shared_steps.main, tmp_path, "double", tuple(IN_MICRO_BATCHES), shard)
    for case in IN_MICRO_BATCHES:
        theirs = load_file(tmp_path / f"{case}.safetensors")
        assert all(value.isfinite().all() for value in theirs.values()), case
        if case.startswith("cpc"):
            for ours in (record(case, torch.float64), record("cpc", torch.float64)):
                assert theirs.keys() == ours.keys()
                for name, value in ours.items():
                    assert distance(theirs[name], value) <= limit(case, name), f"{case}: {name}"


def limit(case: str, name: str) -> float:
    """How far a value may be off."""
    if name in ("rows", "view", "mined", "gallery"):
        return 0.0
    if name.startswith(("gradient/", "mean/")):
        return 1e-12
    if name.endswith("num_batches_tracked") or ("in splits" in case and "running_" in name):
        return float("inf")  # splits are shared out, so each process sees fewer of them
    return 1e-9


def distance(a: Tensor, b: Tensor) -> float:
    """The largest difference, as a share of the largest value, or of 1 where all values are smaller."""
    a, b = a.double(), b.double()
    return float((a - b).abs().max() / max(1.0, float(b.abs().max())))


def test_pieces_hold_every_parameter_once():
    encoder = build_encoder("resnet14", width=1 / 4, sk=True)
    method = METHODS["byol"](encoder, head_hidden=8, head_outputs=8)
    found = list(pieces(method))
    held = [id(p) for piece in found for p in piece.parameters()]
    assert sorted(held) == sorted(id(p) for p in method.parameters())
    assert len(set(held)) == len(held)
    assert sum(isinstance(piece, BLOCKS) for piece in found) == 2 * 4  # trained and averaged
    assert sum(isinstance(piece, nn.Linear) for piece in found) == 2 * 2 + 2  # heads, predictor


def live_in_parts(run: Path, until: int) -> None:
    """A life on one of several processes, which does cut its method."""
    done = []

    def cut(method: Method, device: str) -> Method:
        done.append(method)
        return parallel.cut(method, device)

    collect, kept = checkpoints._collect, []

    def counted(*arguments: Any) -> dict[str, Tensor]:
        tensors = collect(*arguments)
        kept.append(any(name.startswith(("method/", "optimiser/")) for name in tensors))
        return tensors

    step.cut, checkpoints._collect = cut, counted
    lives.live(run, 1, until, True)
    assert len(done) == 1
    assert set(kept) == {os.environ["RANK"] == "0"}  # only one of them holds the whole


@pytest.mark.slow
def test_a_cut_run_resumes_to_the_bit(tmp_path):
    together(2, live_in_parts, tmp_path / "straight", 6)
    for until in (4, 6):
        together(2, live_in_parts, tmp_path / "stopped", until)
    expected, found = state(tmp_path / "straight", 6), state(tmp_path / "stopped", 6)
    assert expected.keys() == found.keys()
    assert all(torch.equal(value, found[name]) for name, value in expected.items())
    assert load_encoder(tmp_path / "stopped").step == 6


@pytest.mark.slow
def test_a_whole_checkpoint_is_cut_and_put_together_again(tmp_path):
    lives.live(tmp_path / "run", epochs=1, until=4)
    before = state(tmp_path / "run", 4)
    together(2, live_in_parts, tmp_path / "run", 4)  # takes no step: reads, cuts, puts together, saves
    after = state(tmp_path / "run", 4)
    assert before.keys() == after.keys()
    assert all(torch.equal(value, after[name]) for name, value in before.items())


def state(run, step):
    return load_file(run / f"checkpoints/{step:09d}/state.safetensors")


def test_one_process_has_nobody_to_share_with(small_recipe, tmp_path):
    with pytest.raises(UserError, match=r"^shard: .*torchrun$"):
        pretrain(small_recipe, tmp_path / "run", shard=True)
    assert not (tmp_path / "run").exists()
