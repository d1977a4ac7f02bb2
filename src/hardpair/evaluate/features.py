"""Features of images under an encoder."""

import torch
from torch import Tensor

from hardpair.data import Images
from hardpair.models import Encoder
from hardpair.views import plain_view

BATCH = 256


@torch.no_grad()
def extract(encoder: Encoder, images: Images, device: torch.device) -> Tensor:
    """Features of the plain images, float32 (N, num_features) on the CPU. Refuses an encoder in training mode."""
    if any(module.training for module in encoder.modules()):
        raise ValueError("the encoder is in training mode, so batch norm would mix images; call .eval() first")
    encoder = encoder.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    batches = (batch.to(device, non_blocking=True) for batch in images.pixels.split(BATCH))
    return torch.cat([encoder(plain_view(batch)).float().cpu() for batch in batches])
