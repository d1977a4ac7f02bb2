"""A method cut among processes: how it is cut, saved and continued. That it learns the same is in test_shared_steps."""

import os
from pathlib import Path
from typing import Any

import lives
import pytest
import torch
from safetensors.torch import load_file
from together import together
from torch import Tensor, nn

from hardpair.errors import UserError
from hardpair.methods import METHODS, Method
from hardpair.models import build_encoder, load_encoder
from hardpair.train import checkpoints, pretrain, shard, step
from hardpair.train.parallel import BLOCKS, pieces


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
        return shard.cut(method, device)

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
