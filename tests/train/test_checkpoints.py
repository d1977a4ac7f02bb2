"""Checkpoints are whole or not there."""

import errno
import json
from pathlib import Path

import pytest
import torch
from hostile import largest_file
from timm.optim.lars import Lars
from torch import nn

from hardpair import distributed
from hardpair.errors import UserError
from hardpair.train import checkpoints
from hardpair.train.checkpoints import load_checkpoint, restore, save_checkpoint


def trained(kind: str = "adam") -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 16, 3), nn.Flatten(), nn.Linear(16 * 36, 64), nn.BatchNorm1d(64))
    module = module.to(memory_format=torch.channels_last)
    make = {
        "adam": lambda p: torch.optim.Adam(p, fused=True),
        "sgd": lambda p: torch.optim.SGD(p, lr=1e-4, momentum=0.9, fused=True),
        "lars": lambda p: Lars(p, lr=0.1),
    }
    optimiser = make[kind](module.parameters())
    train(module, optimiser)
    return module, optimiser


def train(module: nn.Module, optimiser: torch.optim.Optimizer) -> None:
    torch.manual_seed(1)
    for _ in range(3):
        module(torch.randn(8, 3, 8, 8)).square().sum().backward()
        optimiser.step()
        optimiser.zero_grad()


@pytest.mark.parametrize("kind", ["adam", "sgd", "lars"])
def test_round_trip_goes_on_bit_for_bit(tmp_path, kind):
    module, optimiser = trained(kind)
    save_checkpoint(tmp_path, 3, module, optimiser)
    other, other_optimiser = trained(kind)
    train(other, other_optimiser)
    checkpoint, complaints = load_checkpoint(tmp_path)
    assert checkpoint.step == 3
    assert complaints == []
    restore(checkpoint, other, other_optimiser)
    train(module, optimiser)
    train(other, other_optimiser)
    assert all(map(torch.equal, module.state_dict().values(), other.state_dict().values()))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_not_saved(tmp_path, value):
    module, optimiser = trained()
    save_checkpoint(tmp_path, 3, module, optimiser)
    module[0].weight.data[0, 0, 0, 0] = value
    with pytest.raises(UserError, match="weights are not finite at step 4; the last checkpoint is from before"):
        save_checkpoint(tmp_path, 4, module, optimiser)
    assert [path.name for path in tmp_path.iterdir()] == ["000000003"]


def test_the_newest_two_are_kept(tmp_path):
    for step in (1, 2, 30, 4):
        save_checkpoint(tmp_path, step, *trained())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000000004", "000000030"]


def test_unreadable_checkpoints_are_not_counted_among_the_kept(tmp_path):
    for step in (1, 2):
        save_checkpoint(tmp_path, step, *trained())
    damage(tmp_path / "000000002" / "state.json", "truncated")
    load_checkpoint(tmp_path)
    for step in (3, 4):
        save_checkpoint(tmp_path, step, *trained())
    readable = [path.name for path in tmp_path.iterdir() if path.name.isdigit()]
    assert sorted(readable) == ["000000003", "000000004"]


def test_when_none_can_be_read_nothing_starts_anew(tmp_path):
    save_checkpoint(tmp_path, 1, *trained())
    damage(tmp_path / "000000001" / "state.safetensors", "truncated")
    for _ in range(2):
        with pytest.raises(UserError, match="no checkpoint can be read"):
            load_checkpoint(tmp_path)


def test_no_checkpoint(tmp_path):
    assert load_checkpoint(tmp_path / "absent") == (None, [])


def damage(file: Path, how: str) -> None:
    content = file.read_bytes()
    if how == "truncated":
        file.write_bytes(content[: len(content) // 2])
    elif how == "bit flip":
        file.write_bytes(content[:-5] + bytes([content[-5] ^ 1]) + content[-4:])
    elif how == "empty":
        file.write_bytes(b"")
    else:
        file.unlink()


@pytest.mark.parametrize("file", ["state.safetensors", "state.json"])
@pytest.mark.parametrize("how", ["truncated", "bit flip", "empty", "deleted"])
def test_damage_falls_back_to_the_one_before_and_says_so(tmp_path, file, how):
    save_checkpoint(tmp_path, 1, *trained())
    save_checkpoint(tmp_path, 2, *trained())
    damage(tmp_path / "000000002" / file, how)
    checkpoint, complaints = load_checkpoint(tmp_path)
    assert checkpoint.step == 1
    assert "000000002" in complaints[0]
    assert "falling back" in complaints[0]
    save_checkpoint(tmp_path, 2, *trained())
    assert load_checkpoint(tmp_path)[0].step == 2


@pytest.mark.parametrize(
    "error",
    [
        PermissionError(errno.EACCES, "Permission denied"),
        OSError(errno.EIO, "Input/output error"),
        MemoryError(),
        RuntimeError("unable to mmap 9 bytes: Cannot allocate memory (12)"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_only_this_machine_cannot_read_is_left_as_it_is(tmp_path, monkeypatch, error):
    for step in (1, 2):
        save_checkpoint(tmp_path, step, *trained())

    def fail(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "load_file", fail)
        with pytest.raises(UserError, match=r"000000002: cannot be read here \(.+\), though it may be intact"):
            load_checkpoint(tmp_path)
    assert load_checkpoint(tmp_path)[0].step == 2


def test_only_the_first_process_puts_checkpoints_aside(tmp_path, monkeypatch):
    for step in (1, 2):
        save_checkpoint(tmp_path, step, *trained())
    damage(tmp_path / "000000002" / "state.json", "truncated")
    monkeypatch.setattr(distributed, "is_main", lambda: False)
    assert load_checkpoint(tmp_path)[0].step == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000000001", "000000002"]


def test_no_room_leaves_the_checkpoint_before_intact(tmp_path):
    """The system really refuses to write more than 20 kB, as a full disk or a quota would."""
    save_checkpoint(tmp_path, 1, *trained())
    with largest_file(20_000), pytest.raises(UserError) as failure:
        save_checkpoint(tmp_path, 2, *trained())
    assert "cannot save the checkpoint of step 2" in str(failure.value)
    assert "earlier checkpoints are intact (steps: 1)" in str(failure.value)
    assert [path.name for path in tmp_path.iterdir()] == ["000000001"]
    assert load_checkpoint(tmp_path)[0].step == 1


def test_unwritable_folder_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot save"):
        save_checkpoint(tmp_path / "file", 1, *trained())


def test_facts_are_readable(tmp_path):
    save_checkpoint(tmp_path, 5, *trained())
    facts = json.loads((tmp_path / "000000005" / "state.json").read_text())
    assert facts["step"] == 5
    assert len(facts["sha256"]) == 64
