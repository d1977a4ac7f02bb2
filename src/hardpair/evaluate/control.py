"""The random control: what an encoder of the same shape is worth before it has learned anything."""

import torch

from hardpair.data import Images
from hardpair.models import Encoder, build_encoder, set_norm_momentum
from hardpair.views import plain_view

BATCH, MOST = 256, 5_120  # images seen, enough to settle means and variances


@torch.no_grad()
def random_like(encoder: Encoder, images: Images, *, seed: int, device: torch.device) -> Encoder:
    """Fresh weights, batch norm statistics of the training images, in eval mode.

    With the statistics of initialisation (mean 0, variance 1) the control would be weaker by some points, and the
    trained encoder would be credited with them.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        control = build_encoder(**encoder.settings).to(device)
    set_norm_momentum(control, None)  # a plain average over all batches
    control.train()
    rows = torch.linspace(0, len(images) - 1, min(len(images), MOST)).long()  # evenly spaced: files often lie by class
    rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))]
    for part in rows[: max(1, len(rows) // BATCH) * BATCH].split(BATCH):  # a short batch would count too much
        control(plain_view(images.batch(part).to(device)))
    set_norm_momentum(control, 0.1)  # as every other encoder has it, for fine-tuning
    return control.eval()
