"""Weights from elsewhere, to start from or to evaluate: files of other programs, runs, timm's pretrained models.

A file is a dictionary of tensors under the names of its program. Here it becomes the weights of an encoder: prefixes
go, numbered layers get their names, position embeddings their size. Pickles are read with ``weights_only``.
"""

import argparse
import logging
import math
import pickle
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from hardpair.errors import UserError, near, shown
from hardpair.models.encoder import DEPTHS, Encoder, build_encoder
from hardpair.models.saved import load_encoder
from hardpair.pixels import MEAN, STD

TIMM = "timm:"
NAMED = "--name (of evaluate: --encoder)"  # how to say what encoder weights from elsewhere belong to
WRAPPERS = ("state_dict", "teacher", "model", "model_state_dict", "network", "module", "student")
"""Where checkpoints keep the weights beside other things; of DINO's two networks the teacher, as its authors advise."""
AVERAGED = (
    "momentum",
    "encoder_k",
    "target",
    "ema",
    "student_head",
)  # parts of names of the network beside the trained
DEEPEST = 8  # of such places within each other; a file may contain itself
NUMBERED = {"0": "conv1", "1": "bn1", "4": "layer1", "5": "layer2", "6": "layer3", "7": "layer4"}
"""A torchvision ResNet whose layers were put into one nn.Sequential, as in lightly's examples."""
log = logging.getLogger("hardpair")


@dataclass(frozen=True)
class Weights:
    """Tensors by name, and what is known of the encoder they belong to."""

    source: str
    tensors: Mapping[str, Tensor]
    shape: Mapping[str, Any] = field(default_factory=dict)  # arguments of build_encoder, as far as they are known
    image_size: int = 0  # of training, if known
    option: str = "init"  # that asked for them, for messages


@dataclass(frozen=True)
class Match:
    """How well weights fitted an encoder."""

    matched: int
    wanted: int
    missing: tuple[str, ...]
    left_out: int  # tensors of the source that are no part of an encoder, such as heads
    prefix: str

    def __str__(self) -> str:
        prefix = f", under {self.prefix!r}" if self.prefix else ""
        heads = f"; {self.left_out} others (heads and the like) left out" if self.left_out else ""
        missing = f"; {len(self.missing)} start at random, as allowed" if self.missing else ""
        return f"{self.matched} of {self.wanted} tensors of the encoder matched{prefix}{missing}{heads}"


def read_weights(source: str, option: str = "init") -> Weights:
    """``timm:NAME``, a run, or a file of tensors; ``option`` is what messages call it."""
    if source.startswith(TIMM):
        return _pretrained(source, option)
    path = Path(source).expanduser()
    if path.is_dir():
        encoder = load_encoder(path)
        tensors = {name.removeprefix("trunk."): tensor for name, tensor in encoder.state_dict().items()}
        return Weights(source, tensors, encoder.settings, option=option)
    if not path.is_file():
        raise UserError(f"{option}: {shown(source)}: no such file or run; timm:NAME gets pretrained weights of timm")
    tensors = _unwrapped(_read_file(path, option))
    if not tensors:
        raise UserError(f"{option}: {path}: holds no tensors by name; give a state dict")
    return Weights(source, tensors, _resnet_shape(tensors), option=option)


def read_shape(source: str) -> Weights:
    """The same without the tensors, as far as that is known without a download."""
    if source.startswith(TIMM):
        return _published(source, "init")
    return read_weights(source)


def _published(source: str, option: str) -> Weights:
    """What timm knows of its pretrained weights: normalisation and image size come with them."""
    import timm  # here, since it takes two seconds

    name = source.removeprefix(TIMM)
    architecture = name.partition(".")[0]
    if not timm.is_model(architecture) or ":" in name or "/" in name:
        raise UserError(f"{option}: timm has no {shown(name)}{near(architecture, timm.list_models())}")
    known = timm.list_pretrained(f"{architecture}.*")
    config: Any = timm.get_pretrained_cfg(name) if known and name in (architecture, *known) else None
    if config is None:
        raise UserError(f"{option}: timm has no pretrained weights for {shown(name)}{near(name, known)}")
    size = int(config.input_size[-1])
    if architecture in DEPTHS:
        shape: dict[str, Any] = {"name": architecture, "width": 1.0, "small_images": False}
    else:
        shape = {"name": architecture, "image_size": size}
    if (config.mean, config.std) != (MEAN, STD):
        shape |= {"mean": list(config.mean), "std": list(config.std)}
    return Weights(source, {}, shape, size, option)


def _pretrained(source: str, option: str) -> Weights:
    published = _published(source, option)
    import timm

    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it tells of each of ten tries
    log.info("getting the weights of %s, unless they are in the cache", source)
    try:
        model: Any = timm.create_model(source.removeprefix(TIMM), pretrained=True, num_classes=0)
    except Exception as error:  # many kinds, from libraries below
        reason = " ".join(str(error).split())[:160]
        raise UserError(f"{option}: {source}: cannot be had from the network or its cache ({reason})") from error
    return replace(published, tensors=model.state_dict())


def _read_file(path: Path, option: str) -> Any:
    """Safetensors, or a pickle from which nothing but tensors and plain values is taken."""
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        with torch.serialization.safe_globals([argparse.Namespace]):  # plain values, in checkpoints of DINO and MoCo v3
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        why = "is damaged, or holds more than tensors and plain values; save its state dict alone"
        raise UserError(f"{option}: {path}: {why}") from error
    except Exception as error:  # torch and safetensors raise many kinds on damaged files
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
        raise UserError(f"{option}: {path}: cannot be read ({reason})") from error


def _unwrapped(content: Any) -> dict[str, Tensor]:
    for _ in range(DEEPEST):
        inner: Any = None
        if isinstance(content, Mapping):
            inner = next((content[name] for name in WRAPPERS if isinstance(content.get(name), Mapping)), None)
        if inner is None:
            break
        content = inner
    return {str(name): t for name, t in content.items() if _is_plain(t)} if isinstance(content, Mapping) else {}


def _is_plain(value: Any) -> bool:
    """A tensor with its numbers, one after the other."""
    return (
        isinstance(value, Tensor)
        and value.layout is torch.strided
        and value.device.type == "cpu"
        and not value.is_quantized
    )


def _resnet_shape(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """What ResNet these are the weights of, if they are of one."""
    for prefix in _prefixes(tensors):
        state = _under(tensors, prefix)
        stem = state.get("conv1.weight")
        if stem is None or "layer4.0.conv1.weight" not in state or stem.ndim != 4:
            continue
        blocks = tuple(
            len({name.split(".")[1] for name in state if name.startswith(f"layer{k}.")}) for k in range(1, 5)
        )
        bottlenecks = "layer1.0.conv3.weight" in state
        for name, depth in DEPTHS.items():
            if depth == (bottlenecks, blocks):
                return {"name": name, "width": len(stem) / 64, "small_images": stem.shape[-1] == 3}
    return {}


def load_weights(encoder: Encoder, weights: Weights, *, may_miss: Collection[str] = ()) -> Match:
    """Give an encoder these weights, all of them, but for tensors whose names begin with one of ``may_miss``."""
    wanted = encoder.trunk.state_dict()
    counters = {name for name in wanted if name.endswith("num_batches_tracked")}  # older files lack them
    names = wanted.keys() - counters
    prefix, state = _best(weights.tensors, wanted)
    state = {name: _resized(name, tensor, wanted, encoder) for name, tensor in state.items()}
    fitting = {name for name in names if name in state and _fits(state[name], wanted[name])}
    missing = sorted(name for name in names - fitting if not name.startswith(tuple(may_miss)))
    if not fitting or missing:
        raise UserError(_refusal(weights, state, wanted, fitting, missing or sorted(names - fitting)))
    loaded = {name: state[name] for name in fitting | (counters & state.keys())}
    encoder.trunk.load_state_dict(loaded, strict=False)
    match = Match(len(fitting), len(names), tuple(sorted(names - fitting)), len(weights.tensors) - len(loaded), prefix)
    encoder.origin = f"{weights.source}: {match}"
    log.info("%s: %s", weights.option, encoder.origin)
    return match


def load_elsewhere(source: str, encoder: str = "", image_size: int = 0) -> Encoder:
    """The encoder of weights that no run holds, in eval mode.

    ``encoder`` names it where the weights do not show it; ``image_size`` is wanted instead of the size of training.
    """
    weights = read_weights(source, "encoder")
    shape = {**weights.shape, **({"name": encoder} if encoder else {})}
    if "name" not in shape:
        raise UserError(f"encoder: {source} does not show what encoder it belongs to; say so with {NAMED}")
    size = image_size or weights.image_size
    if shape["name"] not in DEPTHS:
        shape = {key: shape[key] for key in ("name", "mean", "std") if key in shape} | {"image_size": size}
    made = build_encoder(**shape)
    load_weights(made, weights)
    return made.eval()


def _fits(tensor: Tensor, wanted: Tensor) -> bool:
    """Weights in half precision are welcome, whole numbers in place of fractions are not."""
    return tensor.shape == wanted.shape and tensor.is_floating_point() == wanted.is_floating_point()


def _refusal(
    weights: Weights, state: Mapping[str, Tensor], wanted: Mapping[str, Tensor], fitting: set[str], missing: list[str]
) -> str:
    first = missing[0]
    has = f"has {_described(state[first])} there" if first in state else "does not have it"
    names = len([name for name in wanted if not name.endswith("num_batches_tracked")])
    advice = f"say what encoder it was made for with {NAMED}"
    if weights.option == "init":
        advice = "choose the --encoder it was made for, or allow parts to start at random with --init-may-miss"
    return (
        f"{weights.option}: {weights.source}: {len(fitting)} of {names} tensors match the encoder, so nothing was "
        f"loaded; {shown(first)} should be {_described(wanted[first])} and the source {has}; {advice}"
    )


def _described(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} of {str(tensor.dtype).removeprefix('torch.')}"


def _best(tensors: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> tuple[str, dict[str, Tensor]]:
    """The prefix under which most of the wanted tensors are; of equals a trained network, not an averaged one."""

    def fit(prefix: str) -> tuple[int, bool, int]:
        state = _under(tensors, prefix)
        count = sum(name in state and state[name].shape == tensor.shape for name, tensor in wanted.items())
        return count, not any(word in prefix for word in AVERAGED), -len(prefix)

    best = max(_prefixes(tensors), key=fit)
    return best, _under(tensors, best)


def _prefixes(tensors: Mapping[str, Tensor]) -> list[str]:
    """Every way to begin the names, with the last dot: "", "module.", "module.encoder_q." …"""
    found = {""}
    for name in tensors:
        parts = name.split(".")
        found |= {".".join(parts[:depth]) + "." for depth in range(1, min(len(parts), 5))}
    return sorted(found)


def _under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors below a prefix, without it; layers that only have a number get their name."""
    state = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    if "conv1.weight" in state or "0.weight" not in state:
        return state
    return dict(_named(state))


def _named(state: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    for name, tensor in state.items():
        number, dot, rest = name.partition(".")
        yield (f"{NUMBERED[number]}{dot}{rest}" if number in NUMBERED else name), tensor


def _resized(name: str, tensor: Tensor, wanted: Mapping[str, Tensor], encoder: Encoder) -> Tensor:
    """Position embeddings for another number of patches, interpolated; all else as it is."""
    if not re.search(r"(^|\.)pos_embed$", name) or name not in wanted or tensor.shape == wanted[name].shape:
        return tensor
    if tensor.ndim != 3 or tensor.shape[2] != wanted[name].shape[2] or not tensor.is_floating_point():
        return tensor
    from timm.layers.pos_embed import resample_abs_pos_embed

    trunk: Any = encoder.trunk
    side = encoder.settings["image_size"] // encoder.patch_side
    extra = 0 if getattr(trunk, "no_embed_class", False) else int(getattr(trunk, "num_prefix_tokens", 1))
    patches = tensor.shape[1] - extra
    if patches < 1 or math.isqrt(patches) ** 2 != patches:  # they are no square
        return tensor
    resized: Tensor = resample_abs_pos_embed(tensor, [side, side], num_prefix_tokens=extra)
    return resized
