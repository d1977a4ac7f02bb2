"""Files of weights from a stranger: refused in one line that names them, and no code of theirs runs."""

import pickle
from collections import OrderedDict

import pytest
import torch
from hostile import BAD_SAFETENSORS, Trap, little_memory, safetensors, tensor, trap, within
from safetensors.torch import save_file
from torch import nn

from hardpair import build_encoder, load_encoder
from hardpair.errors import UserError
from hardpair.models import load_elsewhere, load_weights, read_shape, read_weights


def refused(source, *more):
    """What is said, which must be one line that names the source."""
    with within(20), pytest.raises(UserError) as caught:
        load_elsewhere(str(source), *more)
    message = str(caught.value)
    assert message.startswith("encoder: ")
    assert message.isprintable()
    assert len(message) < 600
    return message


def vit_state():
    return build_encoder("test_vit", image_size=32).trunk.state_dict()


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".safetensors", ".bin", ""])
def test_a_pickle_runs_no_code(tmp_path, suffix):
    content, canary = trap(tmp_path)
    file = tmp_path / f"weights{suffix}"
    file.write_bytes(content)
    assert str(file) in refused(file, "test_vit", 32)
    for inner in (Trap(canary), {"state_dict": {"weight": Trap(canary)}}, OrderedDict(a=[Trap(canary)])):
        torch.save(inner, file)
        assert str(file) in refused(file, "test_vit", 32)
        torch.save(inner, file, _use_new_zipfile_serialization=False)
        assert str(file) in refused(file, "test_vit", 32)
    with pytest.raises(UserError):
        load_encoder(file)
    assert not canary.exists()


@pytest.mark.parametrize("case", BAD_SAFETENSORS)
def test_bad_safetensors_are_refused(tmp_path, case):
    file = tmp_path / "weights.safetensors"
    file.write_bytes(BAD_SAFETENSORS[case])
    with little_memory(100):
        assert str(file) in refused(file, "test_vit", 32)
    assert not (tmp_path.parent / "x").exists()


def test_gigabytes_take_no_memory(tmp_path):
    size, path = 2**33, tmp_path / "weights.safetensors"
    with path.open("wb") as file:
        file.write(safetensors({"a": tensor("U8", [size], 0, size)}))
        file.truncate(file.tell() + size)
    build_encoder("test_vit", image_size=32)
    with little_memory(150):
        refused(path, "test_vit", 32)


@pytest.mark.parametrize(
    "content",
    [b"", b"hello world", b"{}", b"PK\x03\x04" + bytes(99), b"\x89PNG" + bytes(99), b"\x80\x02" + b"(" * 9999],
)
def test_what_is_no_file_of_weights(tmp_path, content):
    for name in ("weights.pt", "weights.safetensors"):
        (tmp_path / name).write_bytes(content)
        assert str(tmp_path / name) in refused(tmp_path / name)


def test_half_a_file(tmp_path):
    torch.save(vit_state(), tmp_path / "weights.pt")
    save_file(vit_state(), tmp_path / "weights.safetensors")
    for name in ("weights.pt", "weights.safetensors"):
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(content[: len(content) // 2])
        assert str(tmp_path / name) in refused(tmp_path / name)


def contains_itself():
    content = {}
    content["model"] = content
    return content


def deep():
    content = {"weight": torch.zeros(1)}
    for _ in range(200):
        content = {"model": content}
    return content


@pytest.mark.parametrize(
    "content",
    [[torch.zeros(1)], {}, {"a": 1}, 7, None, torch.zeros(3), {"state_dict": {"a": "b"}}, contains_itself(), deep()],
    ids=repr,
)
def test_no_tensors_by_name(tmp_path, content):
    torch.save(content, tmp_path / "weights.pt")
    assert "holds no tensors by name" in refused(tmp_path / "weights.pt")


def test_a_whole_module_is_refused(tmp_path):
    torch.save(nn.Linear(2, 2), tmp_path / "weights.pt")
    assert "save its state dict alone" in refused(tmp_path / "weights.pt")
    (tmp_path / "weights.pt").write_bytes(pickle.dumps(vit_state()))  # not as torch saves
    assert "weights.pt" in refused(tmp_path / "weights.pt")


STRANGE = {
    "another shape": lambda: torch.zeros(63),
    "no numbers": lambda: torch.zeros(64, device="meta"),
    "sparse": lambda: torch.zeros(64).to_sparse(),
    "whole numbers": lambda: torch.zeros(64, dtype=torch.int8),
    "truths": lambda: torch.zeros(64, dtype=torch.bool),
    "complex": lambda: torch.zeros(64, dtype=torch.complex64),
    "missing": lambda: None,
}


@pytest.mark.filterwarnings("ignore:Validating sparse tensor invariants")
@pytest.mark.parametrize("kind", STRANGE)
def test_one_strange_tensor_and_nothing_is_loaded(tmp_path, kind):
    state = {**vit_state(), "norm.weight": STRANGE[kind]()}
    torch.save({name: value for name, value in state.items() if value is not None}, tmp_path / "weights.pt")
    message = refused(tmp_path / "weights.pt", "test_vit", 32)
    assert "77 of 78 tensors match" in message
    assert "'norm.weight' should be (64,) of float32" in message


@pytest.mark.parametrize("tokens", [0, 1, 8, 4])
def test_position_embeddings_that_are_no_square(tmp_path, tokens):
    torch.save({**vit_state(), "pos_embed": torch.zeros(1, tokens, 64)}, tmp_path / "weights.pt")
    assert f"the source has (1, {tokens}, 64)" in refused(tmp_path / "weights.pt", "test_vit", 32)


def test_weights_of_another_encoder(tmp_path):
    torch.save(build_encoder("resnet10", width=1 / 8).trunk.state_dict(), tmp_path / "weights.pt")
    assert "made for with --name" in refused(tmp_path / "weights.pt", "resnet50")
    assert "made for with --name" in refused(tmp_path / "weights.pt", "test_vit", 32)
    with pytest.raises(UserError, match=r"^init: .*choose the --encoder .*--init-may-miss$"):
        load_weights(build_encoder("test_vit", image_size=32), read_weights(str(tmp_path / "weights.pt")))
    torch.save(vit_state(), tmp_path / "weights.pt")
    with pytest.raises(UserError, match=r"^encoder: .*weights\.pt does not show what encoder.*--name"):
        load_elsewhere(str(tmp_path / "weights.pt"))
    with pytest.raises(UserError, match=r"^encoder: .*did you mean test_vit"):
        load_elsewhere(str(tmp_path / "weights.pt"), "testvit")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("nowhere", "no such file or run; timm:NAME"),
        ("timm:test_vitt", "timm has no 'test_vitt'; did you mean test_vit"),
        ("timm:test_vit.r16", "no pretrained weights for 'test_vit.r16'; did you mean test_vit.r160_in1k"),
        ("timm:resnet18.a1", "did you mean resnet18.a"),
        ("timm:hf-hub:timm/test_vit", "timm has no"),
        ("timm:local-dir:/tmp", "timm has no"),
        ("timm:../x", "timm has no"),
        ("timm:", "timm has no"),
        ("timm:eva02_enormous_patch14_clip_224.nope", "no pretrained weights"),
    ],
)
def test_sources_that_are_not_there(source, words):
    for read in (read_weights, read_shape):
        with pytest.raises(UserError) as caught:
            read(source)
        assert words in str(caught.value)
        assert str(caught.value).startswith("init: ")
