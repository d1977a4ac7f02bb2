"""torchvision's ResNets: the names of their weights are ours."""

from pathlib import Path

from hardpair.exporters.material import Made, Material, no_such_form, plain_resnet, write_weights
from hardpair.models import DEPTHS

PUBLISHED = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152")


def write_torchvision(material: Material, folder: Path) -> Made:
    """ResNets of width 1 with the stem for large images, those of other depths by torchvision's class."""
    name = material.settings["name"]
    if not plain_resnet(material.settings):
        raise no_such_form("torchvision", material, "torch or onnx" if name in DEPTHS else "timm, huggingface or onnx")
    head = material.head_tensors("fc")
    write_weights(folder, material.trunk.state_dict() | head)
    bottlenecks, layers = DEPTHS[name]
    block = f"resnet.{'Bottleneck' if bottlenecks else 'BasicBlock'}"
    builder, first = (f"{name}", "") if name in PUBLISHED else ("ResNet", f"{block}, {list(layers)}")
    classes = f"num_classes={len(material.classes)}" if material.head else ""
    made = f"resnet.{builder}({', '.join(filter(None, [first, classes]))})"
    last = "" if material.head else "; model.fc = torch.nn.Identity()"
    lines = (
        "import torch; from safetensors.torch import load_file; from torchvision.models import resnet",
        f"model = {made}{last}",
        'model.load_state_dict(load_file("FOLDER/model.safetensors")); model.eval()',
    )
    config = {
        "architecture": name,
        "num_features": material.encoder.num_features,
        "num_classes": len(material.classes),
        "label_names": list(material.classes),
        "image_size": material.size,
        "crop_pct": material.crop,
        "interpolation": "bicubic",
        "mean": material.mean,
        "std": material.std,
    }
    return Made(config, lines, "normalised", prefix="trunk.", head=tuple(head))
