"""Plain PyTorch: weights, shape, and the architecture as one file of Python that needs nothing of ours."""

from importlib.resources import files
from pathlib import Path

from hardpair.exporters.material import Made, Material, no_such_form, write_weights
from hardpair.models import DEPTHS

CODE = "model.py"


def write_torch(material: Material, folder: Path) -> Made:
    """Any ResNet of ours."""
    if material.settings["name"] not in DEPTHS:
        raise no_such_form("torch (a ResNet in plain PyTorch)", material, "timm, huggingface or onnx")
    head = material.head_tensors("fc")
    trunk = {f"trunk.{name}": tensor for name, tensor in material.trunk.state_dict().items()}
    write_weights(folder, trunk | head)
    (folder / CODE).write_bytes((files("hardpair.exporters") / "standalone.py").read_bytes())
    config = {
        "architecture": material.settings["name"],
        "encoder": material.settings,
        "num_features": material.encoder.num_features,
        "num_classes": len(material.classes),
        "label_names": list(material.classes),
        "image_size": material.size,
        "square": material.embedder.square,
        "mean": material.mean,
        "std": material.std,
    }
    given = "logits" if material.head else "features"
    lines = (
        'import sys; sys.path.insert(0, "FOLDER")',
        "from model import load",
        f"model = load()  # {given} = model(model.prepare(picture)[None]), of a PIL image",
    )
    return Made(config, lines, "normalised", files=(CODE,), head=tuple(head))
