"""timm's models, in the layout that timm reads from a folder or from the Hugging Face hub (and transformers, too)."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from hardpair.errors import UserError
from hardpair.exporters.material import Made, Material, no_such_form, plain_resnet, write_weights
from hardpair.exporters.torch_form import write_torch
from hardpair.models import DEPTHS
from hardpair.models.timm_encoders import size_arguments

LINES = (
    'import json, pathlib, timm; config = json.loads(pathlib.Path("FOLDER/config.json").read_text())',
    'weights = {**config["pretrained_cfg"], "file": "FOLDER/model.safetensors"}; options = config["model_args"]',
    'model = timm.create_model(config["architecture"], True, pretrained_cfg_overlay=weights, **options).eval()',
)
"""Through the weights' file and not by ``local-dir:``, which timm 1.0.15 does not know yet."""


def write_timm(material: Material, folder: Path) -> Made:
    """Models of timm, and our ResNets where timm has them."""
    name = material.settings["name"]
    if name in DEPTHS and not plain_resnet(material.settings):
        raise no_such_form("timm", material, "torch, huggingface or onnx")
    architecture, arguments = _timm_names(material)
    layer = _classifier(material, architecture, arguments) if material.head else "fc"
    head = material.head_tensors(layer)
    write_weights(folder, material.trunk.state_dict() | head)
    return Made(_config(material, architecture, arguments), LINES, "normalised", (), "trunk.", tuple(head), "timm")


def write_huggingface(material: Material, folder: Path) -> Made:
    """timm's layout where timm has the encoder; else weights, config and code of plain PyTorch."""
    if material.settings["name"] in DEPTHS and not plain_resnet(material.settings):
        return write_torch(material, folder)
    return write_timm(material, folder)


def _timm_names(material: Material) -> tuple[str, dict[str, Any]]:
    """An architecture that timm has, and what it is to be built with."""
    import timm

    settings = material.settings
    if settings["name"] not in DEPTHS:
        return settings["name"], size_arguments(settings["name"], settings["image_size"])
    bottlenecks, layers = DEPTHS[settings["name"]]
    if timm.is_model(settings["name"]):
        return settings["name"], {}
    return ("resnet50" if bottlenecks else "resnet18"), {"layers": list(layers)}


def _config(material: Material, architecture: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """As timm's own, but for our part of it."""
    import timm

    known = timm.get_pretrained_cfg(architecture)
    pool = getattr(material.trunk, "global_pool", "avg")
    facts = {
        "custom_load": False,
        "num_classes": len(material.classes),
        "input_size": [3, material.size, material.size],
        "fixed_input_size": bool(known and known.fixed_input_size),
        "interpolation": "bicubic",
        "crop_pct": material.crop,
        "crop_mode": "center",
        "mean": material.mean,
        "std": material.std,
        "first_conv": known.first_conv if known else None,
        "classifier": known.classifier if known else None,
    }
    return {
        "architecture": architecture,
        "num_classes": len(material.classes),
        "num_features": material.encoder.num_features,
        "global_pool": pool if isinstance(pool, str) else "avg",
        "label_names": list(material.classes),
        "model_args": arguments,
        "pretrained_cfg": facts,
    }


def _classifier(material: Material, architecture: str, arguments: dict[str, Any]) -> str:
    """Name of the layer that a head becomes: one linear layer on the features, as nearly all of timm's models have."""
    import timm

    classes = len(material.classes)
    with torch.device("meta"):
        model: Any = timm.create_model(architecture, pretrained=False, num_classes=classes, **arguments)
    layer = model.get_classifier()
    names = [str(name) for name, module in model.named_modules() if module is layer]
    if not isinstance(layer, nn.Linear) or layer.in_features != material.encoder.num_features or len(names) != 1:
        raise UserError(f"head: the last layer of timm's {architecture} is not a linear one; give --to onnx")
    return names[0]
