"""A run folder from a stranger: its weights are data or they are refused, in one line and without much memory."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from hostile import BAD_SAFETENSORS, DEEP, STEEP, Trap, little_memory, safetensors, tensor, trap
from safetensors.torch import load_file, save_file

from hardpair import build_encoder, load_encoder
from hardpair.errors import UserError
from hardpair.files import write_atomically
from hardpair.models import Encoder, fingerprint, load_head_layer, mlp, save_encoder, save_head_layer
from hardpair.models import saved as saved_module


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a small encoder and of a layer for it."""
    folder = tmp_path_factory.mktemp("saved")
    save_encoder(build_encoder("resnet10", width=1 / 16, small_images=True), folder, step=3)
    save_head_layer(mlp(32, 8, 1)[0], folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def run(tmp_path: Path, saved: dict[str, bytes]) -> Path:
    for name, content in saved.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def refused(run: Path, file: str) -> str:
    """What is said of it, which must be one line that names the file."""
    with pytest.raises(UserError) as caught:
        load_head_layer(run, inputs=32) if file.startswith("head") else load_encoder(run)
    message = str(caught.value)
    assert message.startswith(str(run / file))
    assert message.isprintable()
    assert len(message) < 500
    return message


def test_the_untouched_run_loads(run: Path) -> None:
    assert load_encoder(run).step == 3
    assert load_head_layer(run, inputs=32)[0].weight.shape == (8, 32)


def test_a_flipped_bit_is_noticed_by_the_hash_which_older_runs_lack(run: Path) -> None:
    content = bytearray((run / "encoder.safetensors").read_bytes())
    content[-1] ^= 1
    (run / "encoder.safetensors").write_bytes(content)
    assert "is not what was written, by its hash; restore it or train again" in refused(run, "encoder.safetensors")
    (run / "encoder.json").write_text(json.dumps(SHAPE))
    assert load_encoder(run).step == 3


def other() -> Encoder:
    return build_encoder("resnet10", width=1 / 16, small_images=True)


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_a_kill_between_writes_leaves_an_encoder_that_loads(run: Path, monkeypatch: pytest.MonkeyPatch, writes: int):
    done: list[Path] = []

    def dying(target: Path, content: bytes) -> None:
        if len(done) == writes:
            raise KeyboardInterrupt
        done.append(target)
        write_atomically(target, content)

    monkeypatch.setattr(saved_module, "write_atomically", dying)
    encoder, before = other(), load_encoder(run)
    with pytest.raises(KeyboardInterrupt):
        save_encoder(encoder, run, step=4)
    assert fingerprint(load_encoder(run)) == fingerprint(before if writes < 2 else encoder)


def test_training_may_save_while_an_encoder_is_loaded(run: Path, monkeypatch: pytest.MonkeyPatch):
    before, encoder = load_encoder(run), other()

    def slow(name: str, **settings: Any) -> Encoder:
        if encoder.step == 0:
            encoder.step = 4
            save_encoder(encoder, run, step=4)
        return build_encoder(name, **settings)

    monkeypatch.setattr(saved_module, "build_encoder", slow)
    assert fingerprint(load_encoder(run)) == fingerprint(before)
    assert fingerprint(load_encoder(run)) == fingerprint(encoder)


@pytest.mark.parametrize("file", ["encoder.safetensors", "head_layer.safetensors", "encoder.json"])
def test_a_pickle_runs_no_code(run: Path, file: str) -> None:
    content, canary = trap(run)
    (run / file).write_bytes(content)
    assert "cannot be read" in refused(run, file)
    torch.save({"weight": Trap(canary)}, run / file)
    refused(run, file)
    assert not canary.exists()


def test_pickles_beside_the_weights_are_not_looked_at(run: Path) -> None:
    content, canary = trap(run)
    for name in (
        "encoder.pt",
        "encoder.pth",
        "encoder.bin",
        "encoder.pkl",
        "model.pt",
        "encoder.safetensors.index.json",
    ):
        (run / name).write_bytes(content)
    load_encoder(run)
    load_head_layer(run, inputs=32)
    assert not canary.exists()


@pytest.mark.parametrize("case", BAD_SAFETENSORS)
@pytest.mark.parametrize("file", ["encoder.safetensors", "head_layer.safetensors"])
def test_bad_safetensors_are_refused(run: Path, file: str, case: str) -> None:
    (run / file).write_bytes(BAD_SAFETENSORS[case])
    with little_memory(100):
        refused(run, file)
    assert not (run.parent / "x").exists()


@pytest.mark.parametrize("kind", [torch.float16, torch.float64, torch.int32, torch.bool])
def test_another_type_of_number_is_refused(run: Path, kind: torch.dtype) -> None:
    for file, name in (("encoder.safetensors", "trunk.bn1.weight"), ("head_layer.safetensors", "0.weight")):
        tensors = {key: value.clone() for key, value in load_file(run / file).items()}
        save_file({**tensors, name: tensors[name].to(kind)}, run / file)
        assert f"first mismatch: '{name}'" in refused(run, file)


def test_a_layer_for_other_features_is_refused(run: Path) -> None:
    with pytest.raises(UserError, match="no layer for the 64 features"):
        load_head_layer(run, inputs=64)


def test_a_layer_with_too_much_or_too_little_is_refused(run: Path) -> None:
    tensors = {key: value.clone() for key, value in load_file(run / "head_layer.safetensors").items()}
    save_file({**tensors, "more": torch.zeros(1)}, run / "head_layer.safetensors")
    assert "first mismatch: 'more'" in refused(run, "head_layer.safetensors")
    del tensors["1.running_mean"]
    save_file(tensors, run / "head_layer.safetensors")
    assert "first mismatch: '1.running_mean'" in refused(run, "head_layer.safetensors")


def test_weights_of_many_gigabytes_take_no_memory(run: Path) -> None:
    """A file of 8 GB, nearly all of it a hole: a tensor that no encoder has."""
    size = 2**33
    with (run / "encoder.safetensors").open("wb") as file:
        file.write(safetensors({"a": tensor("U8", [size], 0, size)}))
        file.truncate(file.tell() + size)
    with little_memory(100):
        refused(run, "encoder.safetensors")


def test_a_giant_by_its_description_alone_takes_no_memory(run: Path) -> None:
    (run / "encoder.json").write_text(json.dumps({"name": "resnet50", "width": 4, "sk": True, "step": 1}))
    with little_memory(200):
        assert "tensors match this encoder" in refused(run, "encoder.safetensors")


SHAPE = {"name": "resnet10", "width": 0.0625, "small_images": True, "step": 3}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (DEEP, "nested too deeply"),
        (STEEP, "nested too deeply"),
        ("null", "cannot be read"),
        ("[]", "cannot be read"),
        ("7", "cannot be read"),
        (" " * 2_000_000 + "{}", "2,000,002 bytes, over 1,000,000"),
        ({**SHAPE, "step": 1e400}, "'step' cannot be inf"),
        ({**SHAPE, "step": "3"}, "'step' cannot be '3'"),
        ({**SHAPE, "step": True}, "'step' cannot be True"),
        ({**SHAPE, "name": ["resnet10"]}, r"'name' cannot be \['resnet10'\]"),
        ({**SHAPE, "name": {"__class__": "os.system"}}, "'name' cannot be {'__class__'"),
        ({**SHAPE, "__class__": "os.system"}, "'__class__' cannot be 'os.system'"),
        ({**SHAPE, "_target_": "os.system"}, "'_target_' cannot be"),
        ({**SHAPE, "width": "4"}, "'width' cannot be '4'"),
        ({**SHAPE, "patch": 1.5}, "'patch' cannot be 1.5"),
        ({**SHAPE, "weights_sha256": 7}, "weights_sha256 cannot be 7"),
        ({"width": 1.0, "step": 3}, "'name'"),
        ({"name": "resnet10"}, "'step'"),
    ],
)
def test_strange_descriptions_are_refused(run: Path, content: object, words: str) -> None:
    (run / "encoder.json").write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(UserError, match=words):
        load_encoder(run)
    refused(run, "encoder.json")


@pytest.mark.parametrize("change", [{"width": 1e400}, {"width": 10**400}, {"width": 0}, {"patch": 1}, {"patch": -8}])
def test_impossible_shapes_are_named(run: Path, change: dict[str, float]) -> None:
    (run / "encoder.json").write_text(json.dumps({**SHAPE, **change}))
    with pytest.raises(UserError, match=f"^{next(iter(change))}: must be between"):
        load_encoder(run)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("file", ["encoder.safetensors", "encoder.json"])
def test_a_pipe_is_not_waited_for(run: Path, file: str) -> None:
    (run / file).unlink()
    os.mkfifo(run / file)
    assert "not found" in refused(run, file)


def test_the_trap_would_have_worked(tmp_path: Path) -> None:
    """Else the tests above would prove nothing: torch's own reader of pickles springs it, when told to trust."""
    canary = tmp_path / "canary"
    torch.save({"weight": Trap(canary)}, tmp_path / "weights.pt")
    torch.load(tmp_path / "weights.pt", weights_only=False)
    assert canary.exists()
