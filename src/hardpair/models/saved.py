"""An encoder on disk: ``encoder.safetensors`` with the weights and ``encoder.json`` with the shape and their hash."""

import hashlib
import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn

from hardpair import distributed
from hardpair.errors import UserError, shown
from hardpair.files import read_json, write_atomically
from hardpair.models.encoder import Encoder, build_encoder
from hardpair.models.heads import Classifier, mlp

SHAPE, WEIGHTS, HASH = "encoder.json", "encoder.safetensors", "weights_sha256"
HEAD_FILE = "head_layer.safetensors"
log = logging.getLogger(__name__)
_KINDS: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "width": (int, float),
    "sk": (bool,),
    "small_images": (bool,),
    "colour_streams": (bool,),
    "patch": (int,),
    "image_size": (int,),
    "mean": (list,),
    "std": (list,),
    "zero_init": (bool,),  # how it began; a random encoder to compare with begins as it did
    "step": (int,),
}
"""What ``encoder.json`` may hold."""


_THREE = {"mean": -1000, "std": 0}  # a number of each colour, and what it must be above


def _are_three(values: list[Any], above: float) -> bool:
    return len(values) == 3 and all(type(value) in (int, float) and above < value < 1000 for value in values)


def state_of(module: nn.Module) -> dict[str, Tensor]:
    """All weights and statistics, whole, in main memory; nothing on processes other than the first."""
    return distributed.collect_on_main(module.state_dict().items())


def save_encoder(encoder: Encoder, folder: Path, *, step: int) -> None:
    """Write the encoder into ``folder``; a reader sees the old files or the new ones, never half of one.

    While the weights are replaced their hash is not written down, so that a kill in between leaves a run that loads.
    Where it is cut among processes all of them must take part; the first one writes.
    """
    tensors = state_of(encoder)
    if not distributed.is_main():
        return
    shape = {**encoder.settings, "num_features": encoder.num_features, "step": step}
    content = save(tensors)
    write_atomically(folder / SHAPE, json.dumps(shape, indent=2).encode())
    write_atomically(folder / WEIGHTS, content)
    shape[HASH] = hashlib.sha256(content).hexdigest()
    write_atomically(folder / SHAPE, json.dumps(shape, indent=2).encode())


def save_classifier(network: Classifier, folder: Path, classes: Sequence[str]) -> None:
    """Write the last layer and the names of the classes beside the encoder."""
    write_atomically(folder / "classifier.safetensors", save(state_of(network.linear)))
    write_atomically(folder / "classes.json", json.dumps(list(classes), indent=2).encode())


def save_head_layer(layer: nn.Sequential, folder: Path) -> None:
    """Write a head's first layer (linear, batch norm, ReLU) beside the encoder; as `save_encoder` does."""
    tensors = state_of(layer)
    if distributed.is_main():
        write_atomically(folder / HEAD_FILE, save(tensors))


def load_head_layer(run: Path, *, inputs: int) -> nn.Sequential:
    """The head's first layer of a run, in eval mode; `inputs` is the number of features that its encoder gives."""
    file = run / HEAD_FILE
    if not file.is_file():
        raise UserError(f"{file}: not found; this run kept no layer of its head, so choose another --preset")
    tensors = read_tensors(file)
    weight = tensors.get("0.weight", torch.empty(0))
    if weight.ndim != 2 or weight.shape[1] != inputs or not weight.numel():  # nothing is made that is not in the file
        raise UserError(f"{file}: is no layer for the {inputs} features of this encoder; restore it or train again")
    layer = mlp(inputs, len(weight), 1)[0]
    assert isinstance(layer, nn.Sequential)
    require_match(layer.state_dict(), tensors, source=str(file))
    layer.load_state_dict(tensors)
    return layer.eval()


def load_encoder(run: str | os.PathLike[str]) -> Encoder:
    """The trained encoder of a run, in eval mode. Refuses a file whose tensors do not all match.

    Or that of a folder that `hardpair export` wrote; or one that was trained elsewhere: ``"timm:NAME"``, or a file of
    weights that shows what ResNet it belongs to.
    """
    folder = Path(run)
    if os.fspath(run).startswith("timm:") or folder.is_file():
        from hardpair.models.weights import load_elsewhere

        return load_elsewhere(os.fspath(run))
    from hardpair.models import exported  # here, since it needs what is in this file

    if exported.is_export(folder):
        return exported.load_exported(folder)
    shape_file, weights_file = folder / SHAPE, folder / WEIGHTS
    for file in (shape_file, weights_file):
        if not file.is_file():
            raise UserError(f"{file}: not found; {folder} holds no trained encoder (has pretraining finished?)")
    shape, step, sha256 = _read_shape(shape_file)
    with weights_file.open("rb") as opened:  # at once: a run that trains may replace it before its turn comes
        tensors = read_tensors(weights_file)
        with torch.device("meta"):  # takes no memory: a few words in encoder.json could ask for gigabytes
            wanted = build_encoder(**shape).state_dict()
        require_match(wanted, tensors, source=str(weights_file))
        if sha256 and hashlib.file_digest(opened, "sha256").hexdigest() != sha256:
            raise UserError(f"{weights_file}: is not what was written, by its hash; restore it or train again")
    encoder = build_encoder(**shape)
    encoder.load_state_dict(tensors)
    encoder.step = step
    return encoder.eval()


def _read_shape(file: Path) -> tuple[dict[str, Any], int, str]:
    """What the encoder is built of, how long it was trained, and the hash of its weights, which older runs lack."""
    try:
        content = dict(read_json(file))
        sha256 = content.pop(HASH, "")
        if not isinstance(sha256, str):
            raise TypeError(f"{HASH} cannot be {shown(sha256)}")
        return *checked_shape(content), sha256
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file}: cannot be read ({error}); restore it or train again") from error


def checked_shape(content: Any) -> tuple[dict[str, Any], int]:
    """Settings of an encoder and its step; plain values of the right kind, or ValueError, KeyError or TypeError."""
    content = dict(content)
    content.pop("num_features", None)  # follows from the rest; written for people
    for name, value in content.items():
        if type(value) not in _KINDS.get(name, ()) or (name in _THREE and not _are_three(value, _THREE[name])):
            raise ValueError(f"{shown(name)} cannot be {shown(value)}")
    if _THREE.keys() & content.keys() not in (set(), _THREE.keys()):
        raise ValueError("mean and std belong together")
    name, step = content["name"], content.pop("step")
    return {**content, "name": name}, step


def read_tensors(file: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, mapped rather than read. No other kind of file is ever loaded."""
    try:
        return dict(load_file(file))
    except Exception as error:  # besides SafetensorError also what torch raises on odd shapes and types
        raise UserError(f"{file}: cannot be read ({str(error)[:120]}); restore it or train again") from error


def require_match(wanted: dict[str, Tensor], tensors: dict[str, Tensor], *, source: str) -> None:
    """Anything less than a full match of names, shapes and types is refused."""
    matched = {name for name, tensor in wanted.items() if name in tensors and _alike(tensor, tensors[name])}
    if len(matched) < len(wanted) or len(tensors) > len(wanted):
        wrong = sorted((wanted.keys() | tensors.keys()) - matched)
        raise UserError(
            f"{source}: {len(matched)} of {len(wanted)} tensors match this encoder, "
            f"so it was not loaded (first mismatch: {shown(wrong[0])})"
        )
    log.info("%s: %d of %d tensors matched", source, len(matched), len(wanted))


def _alike(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype


def fingerprint(module: nn.Module) -> str:
    """Hash of every weight and statistic, and of the shape of an encoder."""
    shape = json.dumps(module.settings, sort_keys=True) if isinstance(module, Encoder) else ""
    sha = hashlib.sha256(shape.encode())
    for name, tensor in module.state_dict().items():
        sha.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        sha.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return sha.hexdigest()
