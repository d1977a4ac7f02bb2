"""Damaged and forged checkpoints: noticed, said in one line, and no code is run."""

import hashlib
import json
import os
import random
from pathlib import Path

import pytest
import torch
from corruptions import FILES, Content, check_fallback, damage, write_two
from hostile import BAD_SAFETENSORS, DEEP, STEEP, Trap, trap
from safetensors.torch import load, save
from torch import nn

from hardpair.errors import UserError
from hardpair.train.checkpoints import Checkpoint, _written, load_checkpoint, restore, save_checkpoint


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Content, Content]:
    return write_two(tmp_path_factory.mktemp("two"))


@pytest.fixture
def folder(tmp_path: Path, two: tuple[Content, Content]) -> Path:
    for step, content in enumerate(two, 1):
        (tmp_path / f"{step:09d}").mkdir()
        for name in FILES:
            (tmp_path / f"{step:09d}" / name).write_bytes(content[name])
    return tmp_path


def forge(folder: Path, content: bytes) -> None:
    """Give the second checkpoint other weights, with a hash that is right."""
    facts = {"step": 2, "sha256": hashlib.sha256(content).hexdigest(), "torch": "2.10"}
    (folder / "000000002" / "state.safetensors").write_bytes(content)
    (folder / "000000002" / "state.json").write_bytes(_written(facts))


def falls_back(folder: Path) -> str:
    """What is said of the second checkpoint once the first was loaded instead."""
    checkpoint, (complaint,) = load_checkpoint(folder)
    assert checkpoint.step == 1
    assert f"{folder / '000000002'}: unreadable" in complaint
    assert "falling back to the checkpoint before it" in complaint
    assert complaint.isprintable()
    assert len(complaint) < 500
    return complaint


def test_random_damage_is_noticed(tmp_path: Path) -> None:
    """`make soak` does this 200 times with another seed."""
    check_fallback(tmp_path, trials=40, seed=0)


def test_the_damage_is_of_every_kind(two: tuple[Content, Content]) -> None:

    draw = random.Random(0)
    kinds = {damage(*two, draw)[0] for _ in range(300)}
    assert len(kinds) == 2 * 7  # six in one file and one between files, for each of the two files


def test_an_unharmed_forgery_would_load(folder: Path) -> None:
    """Else the tests below would prove nothing."""
    forge(folder, save({"a": torch.ones(2)}))
    checkpoint, complaints = load_checkpoint(folder)
    assert complaints == []
    assert checkpoint.tensors["a"].tolist() == [1, 1]


def test_a_pickle_runs_no_code(folder: Path) -> None:
    content, canary = trap(folder.parent)
    torch.save({"weight": Trap(canary)}, folder.parent / "zip.pt")
    forge(folder, (folder.parent / "zip.pt").read_bytes())
    for name in ("state.pt", "state.pkl"):
        (folder / "000000001" / name).write_bytes(content)
    falls_back(folder)
    save_checkpoint(folder, 2, nn.Linear(1, 1), torch.optim.SGD(nn.Linear(1, 1).parameters()))
    forge(folder, content)
    assert "header" in falls_back(folder)
    assert not canary.exists()


LOADABLE = (  # and then they fit no method
    "nothing, but 2**40 of it",
    "types of half a byte",
    "names like paths",
    "a very long name",
    "a thousand dimensions",
)


@pytest.mark.parametrize("case", [case for case in BAD_SAFETENSORS if case not in LOADABLE])
def test_bad_safetensors_with_the_right_hash(folder: Path, case: str) -> None:
    forge(folder, BAD_SAFETENSORS[case])
    falls_back(folder)


@pytest.mark.parametrize(
    "content", [DEEP, STEEP, "null", "[]", "3", '"check"', "{}", '{"check": 1}', "\xff\xfe", "NaN", " " * 2_000_000]
)
def test_strange_facts(folder: Path, content: str) -> None:
    (folder / "000000002" / "state.json").write_text(content, encoding="latin-1")
    falls_back(folder)


@pytest.mark.parametrize("step", [1e400, "two", None, [2], {"__class__": "int"}])
def test_a_strange_step_with_the_right_hash(folder: Path, step: object) -> None:
    file = folder / "000000002" / "state.json"
    facts = json.loads(file.read_text())
    del facts["check"]
    file.write_bytes(_written({**facts, "step": step}))
    falls_back(folder)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("name", ["state.json", "state.safetensors"])
def test_pipes_are_not_waited_for(folder: Path, name: str) -> None:
    (folder / "000000002" / name).unlink()
    os.mkfifo(folder / "000000002" / name)
    falls_back(folder)


def test_files_and_links_in_place_of_folders(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "precious").touch()
    for _ in range(2):
        (folder / "000000003").write_bytes(b"no folder")
        (folder / "000000004").symlink_to(elsewhere)
        (folder / "000000005").symlink_to("000000005")
        checkpoint, complaints = load_checkpoint(folder)
        assert checkpoint.step == 2
        assert len(complaints) == 3
    assert (elsewhere / "precious").exists()


def parts() -> tuple[nn.Module, torch.optim.Optimizer, dict[str, torch.Tensor]]:
    network = nn.Linear(4, 3)
    optimiser = torch.optim.Adam(network.parameters(), fused=True)
    network(torch.ones(2, 4)).sum().backward()
    optimiser.step()
    tensors = {f"method/{name}": value.clone() for name, value in network.state_dict().items()}
    for index, state in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser/{index}/{key}": value.clone() for key, value in state.items()}
    return network, optimiser, load(save(tensors))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("optimiser/0/exp_avg", torch.zeros(1), "optimiser/0/exp_avg has another shape"),
        ("optimiser/0/exp_avg_sq", torch.zeros(3, 5), "optimiser/0/exp_avg_sq has another shape"),
        ("optimiser/7/exp_avg", torch.zeros(3, 4), "list index out of range"),
        ("optimiser/one/exp_avg", torch.zeros(3, 4), "invalid literal"),
        ("optimiser/exp_avg", torch.zeros(3, 4), "not enough values"),
        ("method/weight", torch.zeros(5, 4), "size mismatch for weight"),
        ("method/../../x", torch.zeros(1), "Unexpected key"),
    ],
)
def test_tensors_that_do_not_fit(name: str, value: torch.Tensor, words: str) -> None:
    """A moment that is too short would let a fused optimiser write where it must not."""
    network, optimiser, tensors = parts()
    with pytest.raises(UserError, match=words) as caught:
        restore(Checkpoint(2, {**tensors, name: value}), network, optimiser)
    assert str(caught.value).startswith("the checkpoint of step 2 is of another method or encoder")
    assert len(str(caught.value)) < 400


def test_tensors_that_fit() -> None:
    network, optimiser, tensors = parts()
    restore(Checkpoint(2, tensors), network, optimiser)
