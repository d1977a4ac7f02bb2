"""An image as a page can show it."""

import base64
import io
from typing import Any

import numpy as np
import torch
from PIL import Image

from hardpair.data.images import Images
from hardpair.errors import printable


def describe_image(images: Images, row: int) -> dict[str, Any]:
    """Its row, its label and file where it has them, and its pixels as PNG in base64."""
    buffer = io.BytesIO()
    pixels = images.batch(torch.tensor([row]))[0].permute(1, 2, 0)
    Image.fromarray(np.ascontiguousarray(pixels.numpy())).save(buffer, "PNG")
    label = None if images.labels is None else images.classes[int(images.labels[row])]
    file = printable(images.files[row]) if images.files else None
    return {"id": row, "label": label, "file": file, "png": base64.b64encode(buffer.getvalue()).decode()}
