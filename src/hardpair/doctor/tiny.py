"""The smallest real training: bundled photos at eight pixels, an encoder of a sixteenth of the width."""

from hardpair.recipes import Recipe

STEPS = 20  # an epoch of the 5,000 photos
TINY = Recipe(
    name="doctor",
    image_size=8,
    encoder="resnet10",
    width=1 / 16,
    epochs=1,
    batch_size=250,
    settings={"head_hidden": 32, "head_outputs": 16, "alpha_pos": 1.0, "alpha_neg": 1.0, "norm": "l2"},
)
