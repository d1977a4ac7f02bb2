"""Folders that `hardpair export` wrote, read back: the part ``hardpair`` of ``config.json``, and the weights."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from hardpair.errors import UserError, shown
from hardpair.files import read_json
from hardpair.models.encoder import Encoder, build_encoder
from hardpair.models.saved import checked_shape, fingerprint, read_tensors, require_match

CONFIG, WEIGHTS, OURS = "config.json", "model.safetensors", "hardpair"
MOST_BYTES = 100_000_000  # of config.json, which holds the names of all classes
LEAST_SIDE, MOST_SIDE = 8, 1024  # pixels
GRAPH = "onnx"  # the form whose weights cannot be read back, since the graph has them changed


@dataclass(frozen=True)
class Exported:
    """What an export says of its encoder."""

    form: str  # timm, torchvision, huggingface, onnx or torch
    settings: Mapping[str, Any]  # arguments of build_encoder
    step: int  # of pretraining
    fingerprint: str
    square: int  # pixels a side of the squares that pictures are decoded to
    shown: int  # pixels a side that the encoder sees of them
    prefix: str = ""  # what the encoder has before the names of the weights
    head: tuple[str, ...] = ()  # names of the weights of the head
    about: Mapping[str, Any] = field(default_factory=dict)  # what the card says


def is_export(folder: Path) -> bool:
    """Whether `hardpair export` wrote it. A run is none, whatever else lies in it."""
    if (folder / "encoder.json").is_file() or not (folder / CONFIG).is_file():
        return False
    try:
        return isinstance(read_json(folder / CONFIG, most=MOST_BYTES).get(OURS), dict)
    except (OSError, ValueError, AttributeError):
        return False


def read_export(folder: Path) -> Exported:
    """What it says; UserError unless all of it makes sense."""
    file = folder / CONFIG
    try:
        content = dict(read_json(file, most=MOST_BYTES)[OURS])
        settings, step = checked_shape({**content["settings"], "step": content["step"]})
        texts = {name: content[name] for name in ("form", "fingerprint", "prefix")}
        sides = {name: content[name] for name in ("square", "shown")}
        head, about = content["head"], content["about"]
        if not all(isinstance(text, str) for text in (*texts.values(), *head)) or not isinstance(about, dict):
            raise TypeError("a field of ours is of another kind")
        if not all(type(side) is int and LEAST_SIDE <= side <= MOST_SIDE for side in sides.values()):
            raise ValueError(f"the sides {shown(sides)} are out of range")
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = f"there is no {error} in it" if isinstance(error, KeyError) else str(error)[:120]
        raise UserError(f"{file}: cannot be read ({reason}); export the encoder again") from error
    return Exported(settings=settings, step=step, head=tuple(head), about=about, **texts, **sides)


def load_exported(folder: Path) -> Encoder:
    """The encoder of an export, in eval mode, if it is as it was exported."""
    known = read_export(folder)
    if known.form == GRAPH:
        raise UserError(
            f"{folder}: is an ONNX graph, which other runtimes load; "
            "give the encoder it was made of, or an export to torch, timm, torchvision or huggingface"
        )
    file = folder / WEIGHTS
    if not file.is_file():
        raise UserError(f"{file}: not found; export the encoder again")
    tensors = {known.prefix + name: tensor for name, tensor in read_tensors(file).items() if name not in known.head}
    with torch.device("meta"):
        wanted = build_encoder(**known.settings).state_dict()
    require_match(wanted, tensors, source=str(file))
    encoder = build_encoder(**known.settings)
    encoder.load_state_dict(tensors)
    if fingerprint(encoder) != known.fingerprint:
        raise UserError(f"{file}: is not what was exported, by its hash; export the encoder again")
    encoder.step = known.step
    return encoder.eval()
