"""Images as a page shows them."""

import base64
import io

import numpy as np
import torch
from PIL import Image

from hardpair.data import Images
from hardpair.data.picture import describe_image


def test_pixels_survive_and_labels_are_named():
    torch.manual_seed(0)
    pixels = torch.randint(0, 256, (3, 3, 9, 9), dtype=torch.uint8)
    described = describe_image(Images(pixels, torch.tensor([1, 0, 1]), ("cat", "dog"), name="x"), 2)
    shown = np.asarray(Image.open(io.BytesIO(base64.b64decode(described["png"]))))
    assert np.array_equal(shown, pixels[2].permute(1, 2, 0).numpy())
    assert (described["id"], described["label"]) == (2, "dog")
    bare = describe_image(Images(pixels, None, (), name="x"), 0)
    assert (bare["label"], bare["file"]) == (None, None)
    assert describe_image(Images(pixels, None, (), name="x", files=("a", "b\n", "c")), 1)["file"] == "b?"
