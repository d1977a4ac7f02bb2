"""Training a network with labels, or with the answers of another network: the loop behind every fine-tuning."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from hardpair.data import Images, epoch_order
from hardpair.data.progress import progress
from hardpair.errors import UserError
from hardpair.recipes.tuning import Tuning
from hardpair.train.optimisers import build_optimiser, set_learning_rate
from hardpair.views import POLICIES, Draw, augmented_view

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]  # of the outputs, which images these are, and what was shown


class DivergedError(UserError):
    """The loss is no longer a number."""


def tune(
    network: nn.Module,
    images: Images,
    tuning: Tuning,
    loss: Loss,
    *,
    seed: int,
    device: torch.device,
    label: str,
    only: Tensor | None = None,
) -> None:
    """Train what takes a gradient in the network, on random crops and flips of the images, or `only` of some rows."""
    seen = torch.arange(len(images)) if only is None else only
    optimiser = build_optimiser(network, tuning, nesterov=tuning.optimiser == "sgd")
    positions = torch.arange(tuning.batch_size, device=device)
    steps_per_epoch = len(seen) // tuning.batch_size
    order, value = seen, torch.zeros(())
    with progress(label, tuning.steps) as advance:
        for step in range(tuning.steps):
            epoch, index = divmod(step, steps_per_epoch)
            if index == 0:
                order = seen[epoch_order(len(seen), seed=seed, epoch=epoch)]
            rows = order[index * tuning.batch_size :][: tuning.batch_size]
            pixels = images.pixels[rows].to(device, non_blocking=True)
            view = augmented_view(pixels, POLICIES["crop"], Draw(seed, step, positions))
            set_learning_rate(optimiser, rate_at(tuning, step))
            value = loss(network(view), rows, view)
            value.backward()
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            advance(1)
    if not bool(value.isfinite()):
        raise DivergedError(
            f"{label}: the loss is not finite; a lower learning rate than {tuning.learning_rate:g} may help"
        )


def rate_at(tuning: Tuning, step: int) -> float:
    """Linear warm-up, then a cosine to 0."""
    warmup = round(tuning.warmup * tuning.steps)
    if step < warmup:
        return tuning.learning_rate * (step + 1) / warmup
    return tuning.learning_rate * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(tuning.steps - warmup, 1)))
