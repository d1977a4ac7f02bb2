"""The random control: what an encoder of the same shape is worth before it has learned anything."""

import torch

from hardpair.models import Encoder, build_encoder


def random_like(encoder: Encoder, *, seed: int, device: torch.device) -> Encoder:
    """Fresh weights, in eval mode, as training would begin with them.

    Batch norm keeps the statistics of initialisation. Those of the training images would make the control weaker, the
    more so the deeper it is, and the trained encoder would be credited with the difference (docs/log.md).
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build_encoder(**encoder.settings).to(device).eval()
