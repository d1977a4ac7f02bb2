"""A linear head on the vectors of one encoder: `head.safetensors` with the numbers, `head.json` with what they mean.

Vectors go in as they come out of the encoder: what standardised them in training is folded into the weights. Anybody
may have written these files, so every field is checked.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load, save
from torch import Tensor

from hardpair.embeddings.embedding import ENCODER, Embedding, checked_encoder
from hardpair.errors import UserError, shown
from hardpair.files import read_json, read_plain, write_atomically

WEIGHTS, FACTS = "head.safetensors", "head.json"
WHAT, VERSION = "linear head by hardpair", 1
MOST_BYTES = 1 << 30  # of a file of a head: 1,000,000 classes of 256 features


@dataclass(frozen=True)
class LinearHead:
    """Vectors (N, D) → logits (N, C), and probabilities that were calibrated by one temperature."""

    weight: Tensor  # float32 (C, D)
    bias: Tensor  # float32 (C,)
    classes: tuple[str, ...]  # (C,) output k is classes[k]
    temperature: float  # logits are divided by it before the softmax
    encoder: Mapping[str, Any]  # as in the manifest of the embedding it was fitted on
    facts: Mapping[str, Any] = field(default_factory=dict)  # how it was fitted and how good it is; for people

    @property
    def fingerprint(self) -> str:
        """Of the encoder it belongs to."""
        return str(self.encoder["fingerprint"])

    def logits(self, vectors: NDArray[Any]) -> NDArray[np.float32]:
        """(N, D) → (N, C), before the temperature."""
        values = torch.from_numpy(np.asarray(vectors, dtype=np.float32))
        logits: NDArray[np.float32] = torch.addmm(self.bias, values, self.weight.T).numpy()
        return logits

    def probabilities(self, vectors: NDArray[Any]) -> NDArray[np.float32]:
        """(N, D) → (N, C), each row of sum 1."""
        scaled = torch.from_numpy(self.logits(vectors)) / self.temperature
        probabilities: NDArray[np.float32] = scaled.softmax(1).numpy()
        return probabilities

    def require_fits(self, embedding: Embedding) -> None:
        """Refuse vectors of another encoder: their axes mean different things."""
        if embedding.encoder != self.fingerprint or embedding.vectors.shape[1] != self.weight.shape[1]:
            theirs, ours = embedding.manifest["encoder"]["source"], self.encoder["source"]
            raise UserError(
                f"{embedding.folder}: made by another encoder ({shown(theirs)}) than the head ({shown(ours)}); "
                "embed the pictures with the encoder of the head, or fit another head"
            )


def save_head(head: LinearHead, folder: Path) -> None:
    """Write both files; the second names the hash of the first, so that two that do not belong together are noticed."""
    refuse_other_head(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = save({"weight": head.weight.contiguous(), "bias": head.bias.contiguous()})
    facts = {
        "what": WHAT,
        "version": VERSION,
        "classes": list(head.classes),
        "temperature": head.temperature,
        "encoder": {name: head.encoder[name] for name in ENCODER},
        "weights_sha256": hashlib.sha256(tensors).hexdigest(),
        "facts": dict(head.facts),
    }
    write_atomically(folder / WEIGHTS, tensors)
    write_atomically(folder / FACTS, json.dumps(facts, indent=1).encode())


def refuse_other_head(folder: Path) -> None:
    """Refuse a folder whose files of these names are not a head of ours."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: is a file; give a folder for the head")
    if not (folder / FACTS).exists():
        if (folder / WEIGHTS).exists():
            raise UserError(f"{folder / WEIGHTS}: belongs to something else; choose another folder for the head")
        return
    try:
        ours = read_json(folder / FACTS, most=MOST_BYTES)["what"] == WHAT
    except (OSError, ValueError, KeyError, TypeError):
        ours = False
    if not ours:
        raise UserError(f"{folder / FACTS}: is no head; choose another folder for the head, or delete it")


def load_head(folder: Path | str) -> LinearHead:
    """A head that `hardpair classify` saved; UserError unless both files are there, whole, and belong together."""
    folder = Path(folder)
    for file in (folder / FACTS, folder / WEIGHTS):
        if not file.is_file():
            raise UserError(f"{file}: not found; hardpair classify EMB --labels … fits a head and saves it")
    try:
        content = _checked(read_json(folder / FACTS, most=MOST_BYTES))
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise UserError(f"{folder / FACTS}: cannot be read ({reason[:200]}); fit the head again") from error
    shape = (len(content["classes"]), content["encoder"]["num_features"])
    weight, bias = _read_tensors(folder / WEIGHTS, shape, content["weights_sha256"])
    temperature, facts = float(content["temperature"]), dict(content["facts"])
    return LinearHead(weight, bias, tuple(content["classes"]), temperature, content["encoder"], facts)


def _checked(content: Any) -> dict[str, Any]:
    """The content of `head.json`; ValueError, TypeError or KeyError unless all of it makes sense."""
    if not isinstance(content, dict) or content["what"] != WHAT or content["version"] != VERSION:
        raise ValueError(f"it is no {WHAT} of version {VERSION}")
    classes, temperature = content["classes"], content["temperature"]
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
        raise TypeError("its classes are no names")
    if len(classes) < 2 or len(set(classes)) < len(classes):
        raise ValueError("its classes are not two or more different names")
    if type(temperature) not in (int, float) or not math.isfinite(temperature) or temperature <= 0:
        raise ValueError(f"its temperature cannot be {shown(temperature)}")
    if not isinstance(content["weights_sha256"], str) or not isinstance(content["facts"], dict):
        raise TypeError("its hash or its facts are of another kind")
    return content | {"encoder": checked_encoder(content["encoder"])}


def _read_tensors(file: Path, shape: tuple[int, int], sha256: str) -> tuple[Tensor, Tensor]:
    """Weight (C, D) and bias (C,), finite; no other kind of file is ever loaded."""
    try:
        content = read_plain(file, most=MOST_BYTES)
        if hashlib.sha256(content).hexdigest() != sha256:
            raise ValueError("it is not what was written, by its hash")
        tensors = load(content)
        wanted = {"weight": shape, "bias": shape[:1]}
        if {name: tuple(tensor.shape) for name, tensor in tensors.items()} != wanted:
            raise ValueError(f"not a weight of {shape[0]:,} × {shape[1]:,} and a bias")
        if not all(t.dtype == torch.float32 and bool(t.isfinite().all()) for t in tensors.values()):
            raise ValueError("values that are not finite numbers in float32")
    except Exception as error:  # safetensors raises kinds of its own
        raise UserError(f"{file}: cannot be read ({str(error)[:120]}); fit the head again") from error
    return tensors["weight"], tensors["bias"]
