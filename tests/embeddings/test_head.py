"""A head on disk: what is saved comes back, and nothing else is taken for one."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from make_embedding import make_embedding

from hardpair.embeddings.head import LinearHead, load_head, save_head
from hardpair.errors import UserError


@pytest.fixture
def head(tmp_path: Path) -> LinearHead:
    generator = torch.Generator().manual_seed(0)
    encoder = make_embedding(tmp_path / "emb", np.ones((3, 5), "f4")).manifest["encoder"]
    weight, bias = torch.randn(4, 5, generator=generator), torch.randn(4, generator=generator)
    return LinearHead(weight, bias, ("a", "b", "c\udcff", "<d>"), 1.7, encoder, {"labels": 12})


def test_a_saved_head_comes_back(head: LinearHead, tmp_path: Path):
    save_head(head, tmp_path / "head")
    loaded = load_head(tmp_path / "head")
    assert loaded.classes == head.classes
    assert loaded.fingerprint == head.fingerprint
    assert loaded.temperature == 1.7
    assert loaded.facts == {"labels": 12}
    vectors = np.random.default_rng(0).normal(size=(6, 5))
    assert np.array_equal(loaded.probabilities(vectors), head.probabilities(vectors))
    save_head(head, tmp_path / "head")  # its own files may be written again


def test_logits_and_probabilities_by_their_definition(head: LinearHead):
    vectors = np.random.default_rng(1).normal(size=(7, 5)).astype(np.float16)
    logits = vectors.astype(np.float64) @ head.weight.numpy().T + head.bias.numpy()
    raised = np.exp(logits / 1.7)
    np.testing.assert_allclose(head.logits(vectors), logits, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(head.probabilities(vectors), raised / raised.sum(1, keepdims=True), rtol=1e-5)


def test_vectors_of_another_encoder_are_refused(head: LinearHead, tmp_path: Path):
    head.require_fits(make_embedding(tmp_path / "same", np.ones((2, 5), "f4")))
    with pytest.raises(UserError, match="another encoder"):
        head.require_fits(make_embedding(tmp_path / "other", np.ones((2, 5), "f4"), encoder="e" * 64))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("what", "something"),
        ("version", 2),
        ("classes", "abcd"),
        ("classes", ["a", "b", "c", 1]),
        ("classes", ["a", "b", "c", "a"]),
        ("classes", ["a", "b", "c"]),
        ("classes", []),
        ("temperature", 0),
        ("temperature", float("nan")),
        ("temperature", True),
        ("weights_sha256", "0" * 64),
        ("facts", []),
        ("encoder", None),
        ("encoder", {}),
        ("encoder.num_features", 6),
        ("encoder.num_features", "5"),
        ("encoder.fingerprint", 7),
        ("encoder.settings", {}),
        ("encoder.square", 0),
    ],
)
def test_a_field_that_makes_no_sense_is_named(head: LinearHead, tmp_path: Path, name: str, value: Any):
    save_head(head, tmp_path)
    content = json.loads((tmp_path / "head.json").read_text())
    *outer, last = name.split(".")
    (content[outer[0]] if outer else content)[last] = value
    (tmp_path / "head.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"head\.(json|safetensors): cannot be read"):
        load_head(tmp_path)


@pytest.mark.parametrize("name", ["what", "classes", "temperature", "encoder", "facts", "weights_sha256"])
def test_a_field_that_is_missing_is_named(head: LinearHead, tmp_path: Path, name: str):
    save_head(head, tmp_path)
    content = json.loads((tmp_path / "head.json").read_text())
    del content[name]
    (tmp_path / "head.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=f"it has no '{name}'"):
        load_head(tmp_path)


@pytest.mark.parametrize("file", ["head.json", "head.safetensors"])
def test_a_damaged_or_missing_file_is_named(head: LinearHead, tmp_path: Path, file: str):
    save_head(head, tmp_path)
    content = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match=rf"{file}: cannot be read .* fit the head again"):
        load_head(tmp_path)
    (tmp_path / file).unlink()
    with pytest.raises(UserError, match=f"{file}: not found"):
        load_head(tmp_path)


@pytest.mark.parametrize("file", ["head.json", "head.safetensors"])
def test_files_of_something_else_stay_as_they_are(head: LinearHead, tmp_path: Path, file: str):
    (tmp_path / file).write_bytes(b'{"mine": 1}')
    with pytest.raises(UserError, match="choose another folder"):
        save_head(head, tmp_path)
    assert (tmp_path / file).read_bytes() == b'{"mine": 1}'
