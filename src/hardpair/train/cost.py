"""What a method costs, in forwards of the plain encoder an image: measured, so that no method declares its own."""

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from hardpair.data import Images
from hardpair.methods import Method
from hardpair.recipes import Recipe
from hardpair.train.step import build_method, fresh_encoder, recipe_draw
from hardpair.views import plain_view

MOST = 256  # images counted at once
CPU = torch.device("cpu")


def forward_equivalents(recipe: Recipe, images: Images, *, device: torch.device = CPU) -> float:
    """Floating point operations of one training step ÷ those of one forward of the plain encoder on as many images.

    A forward without gradient counts 1, a forward with its backward about 3: the first convolution needs no gradient
    of its input, which saves a little, and heads and losses add a little. Two streams of half the width, or patches
    that overlap, count as what they are. Making the views, the optimiser and moving averages are not counted, nor is
    anything but matrix products and convolutions.

    The batch is the recipe's own up to 256 images, because comparing all pairs of a batch costs more an image in a
    larger one; beyond that it is 256.
    """
    count = min(recipe.batch_size, MOST, len(images))
    rows = torch.arange(count)
    batch = images.batch(rows).to(device)
    with torch.random.fork_rng(devices=[]):
        method = build_method(recipe, images).to(device).train()
        plain = fresh_encoder(recipe).to(device)
    rows = rows.to(device)
    views = method.views(batch, recipe_draw(recipe, 0, rows, rows))
    with FlopCounterMode(display=False) as forward, torch.no_grad():
        plain(plain_view(batch))
    return step_operations(method, views) / int(forward.get_total_flops())


def step_operations(method: Method, views: list[Tensor]) -> int:
    """Floating point operations of one forward and backward; a multiplication and its addition are two."""
    with FlopCounterMode(display=False) as counter:
        method(views)["loss"].backward()
    return int(counter.get_total_flops())
