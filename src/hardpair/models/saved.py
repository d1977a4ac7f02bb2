"""An encoder on disk: ``encoder.safetensors`` with the weights and ``encoder.json`` with the shape."""

import hashlib
import json
import logging
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import nn

from hardpair.errors import UserError
from hardpair.files import write_atomically
from hardpair.models.classifier import Classifier
from hardpair.models.encoder import Encoder, build_encoder
from hardpair.models.heads import mlp

HEAD_FILE = "head_layer.safetensors"
log = logging.getLogger(__name__)


def save_encoder(encoder: Encoder, folder: Path, *, step: int) -> None:
    """Write the encoder into ``folder``; a reader sees the old files or the new ones, never half of one."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in encoder.state_dict().items()}
    shape = {**encoder.settings, "num_features": encoder.num_features, "step": step}
    write_atomically(folder / "encoder.safetensors", save(tensors))
    write_atomically(folder / "encoder.json", json.dumps(shape, indent=2).encode())


def save_classifier(network: Classifier, folder: Path, classes: Sequence[str]) -> None:
    """Write the last layer and the names of the classes beside the encoder."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in network.linear.state_dict().items()}
    write_atomically(folder / "classifier.safetensors", save(tensors))
    write_atomically(folder / "classes.json", json.dumps(list(classes), indent=2).encode())


def save_head_layer(layer: nn.Sequential, folder: Path) -> None:
    """Write a head's first layer (linear, batch norm, ReLU) beside the encoder."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in layer.state_dict().items()}
    write_atomically(folder / HEAD_FILE, save(tensors))


def load_head_layer(run: Path) -> nn.Sequential:
    """The head's first layer of a run, in eval mode."""
    file = run / HEAD_FILE
    if not file.is_file():
        raise UserError(f"{file}: not found; this run kept no layer of its head, so choose another --preset")
    try:
        tensors = load_file(file)
        outputs, inputs = tensors["0.weight"].shape
        layer = mlp(inputs, outputs, 1)[0]
        assert isinstance(layer, nn.Sequential)
        layer.load_state_dict(tensors)
    except (OSError, SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise UserError(f"{file}: cannot be read ({error}); restore it or train again") from error
    return layer.eval()


def load_encoder(run: str | Path) -> Encoder:
    """The trained encoder of a run, in eval mode. Refuses a file whose tensors do not all match."""
    folder = Path(run)
    shape_file, weights_file = folder / "encoder.json", folder / "encoder.safetensors"
    for file in (shape_file, weights_file):
        if not file.is_file():
            raise UserError(f"{file}: not found; {folder} holds no trained encoder (has pretraining finished?)")
    try:
        shape = json.loads(shape_file.read_text())
        step = int(shape.pop("step"))
        shape.pop("num_features")  # follows from the rest; written for people
        encoder = build_encoder(**shape)
        encoder.step = step
        tensors = load_file(weights_file)
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{folder}: the saved encoder cannot be read ({error}); restore it or train again") from error
    fill_encoder(encoder, tensors, source=str(weights_file))
    return encoder.eval()


def fill_encoder(encoder: Encoder, tensors: dict[str, torch.Tensor], *, source: str) -> None:
    """Copy tensors into the encoder; anything less than a full match of names and shapes is refused."""
    wanted = encoder.state_dict()
    matched = {name for name in wanted if name in tensors and tensors[name].shape == wanted[name].shape}
    if len(matched) < len(wanted) or len(tensors) > len(wanted):
        wrong = sorted((wanted.keys() | tensors.keys()) - matched)
        raise UserError(
            f"{source}: {len(matched)} of {len(wanted)} tensors match this encoder, "
            f"so it was not loaded (first mismatch: {wrong[0]})"
        )
    encoder.load_state_dict(tensors)
    log.info("%s: %d of %d tensors matched", source, len(matched), len(wanted))


def fingerprint(encoder: Encoder) -> str:
    """Hash of the shape and of every weight and statistic."""
    sha = hashlib.sha256(json.dumps(encoder.settings, sort_keys=True).encode())
    for name, tensor in encoder.state_dict().items():
        sha.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        sha.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return sha.hexdigest()
