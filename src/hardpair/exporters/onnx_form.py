"""ONNX: one graph from pixels to features, or logits, for any runtime; the normalisation is inside."""

import contextlib
import importlib.util
import io
import json
import logging
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from hardpair.errors import UserError
from hardpair.exporters.material import Made, Material

FILE, WEIGHTS = "model.onnx", "model.onnx.data"
PACKAGES = ("onnx", "onnxruntime", "onnxscript")
LARGEST = 1_500_000_000  # bytes of weights in the graph's own file, which cannot hold 2 GiB


class Graph(nn.Module):
    """uint8 pixels (N, 3, S, S), RGB → features or logits, float32."""

    scale: Tensor
    shift: Tensor

    def __init__(self, material: Material) -> None:
        super().__init__()
        self.trunk = material.trunk
        mean, std = torch.tensor(material.mean), torch.tensor(material.std)
        self.register_buffer("scale", (1 / (255 * std))[:, None, None])
        self.register_buffer("shift", (-mean / std)[:, None, None])
        self.fc: nn.Module = nn.Identity()
        if material.head is not None:
            self.fc = nn.Linear(material.encoder.num_features, len(material.classes))
            self.fc.load_state_dict({k.partition(".")[2]: v for k, v in material.head_tensors("fc").items()})

    def forward(self, images: Tensor) -> Tensor:  # noqa: D102
        outputs: Tensor = self.fc(self.trunk(images.float() * self.scale + self.shift))
        return outputs


def require_onnx() -> None:
    """Say what to install, before anything is computed."""
    if missing := [name for name in PACKAGES if importlib.util.find_spec(name) is None]:
        raise UserError(f"to: onnx needs {', '.join(missing)}: pip install 'hardpair[onnx]'")


def write_onnx(material: Material, folder: Path) -> Made:
    """Any encoder that torch can trace."""
    require_onnx()
    output = "logits" if material.head else "features"
    graph = Graph(material).eval()
    large = sum(value.nbytes for value in graph.state_dict().values()) > LARGEST
    example = torch.zeros(2, 3, material.size, material.size, dtype=torch.uint8)
    try:
        with _quietly():
            program = torch.onnx.export(
                graph,
                (example,),
                input_names=["images"],
                output_names=[output],
                dynamic_shapes={"images": {0: torch.export.Dim("batch", min=1)}},
                dynamo=True,
                verbose=False,
            )
            assert program is not None
            facts = {"classes": list(material.classes), "input": "uint8 RGB (N, 3, S, S)", "output": output}
            program.model.metadata_props["hardpair"] = json.dumps(facts)
            program.save(folder / FILE, external_data=large)
    except Exception as error:  # torch raises many kinds on what it cannot trace
        reason = " ".join(str(error).split())[:160]
        raise UserError(f"to: {material.settings['name']} cannot be written as ONNX ({reason})") from error
    lines = (
        'import onnxruntime; session = onnxruntime.InferenceSession("FOLDER/model.onnx")',
        'def model(images): return session.run(None, {"images": images})[0]',
        f"# {output} = model(images), images: RGB, numpy.uint8 of shape (N, 3, {material.size}, {material.size})",
    )
    config = {
        "architecture": material.settings["name"],
        "num_features": material.encoder.num_features,
        "num_classes": len(material.classes),
        "label_names": list(material.classes),
        "image_size": material.size,
        "crop_pct": material.crop,
        "interpolation": "bicubic",
        "input": {"name": "images", "dtype": "uint8", "shape": ["batch", 3, material.size, material.size]},
        "output": {"name": output, "dtype": "float32", "shape": ["batch", material.outputs]},
    }
    return Made(config, lines, "pixels", files=(FILE, WEIGHTS) if large else (FILE,), library="onnx")


@contextlib.contextmanager
def _quietly():  # type: ignore[no-untyped-def]
    """Without what torch and onnxscript print and warn of on their way; whether it went well is checked afterwards."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
