"""Features of images under an encoder."""

import torch
from torch import Tensor

from hardpair.data import Images
from hardpair.data.progress import progress
from hardpair.models import Encoder
from hardpair.views import plain_view

BATCH = 256


@torch.no_grad()
def extract(encoder: Encoder, images: Images, device: torch.device) -> Tensor:
    """Features of the plain images, float32 (N, num_features) on the CPU. Refuses an encoder in training mode."""
    if any(module.training for module in encoder.modules()):
        raise ValueError("the encoder is in training mode, so batch norm would mix images; call .eval() first")
    encoder = encoder.to(device).to(memory_format=torch.channels_last)
    parts = []
    with progress(f"features of {images.name}", len(images)) as advance:
        for batch in images.pixels.split(BATCH):
            parts.append(encoder(plain_view(batch.to(device, non_blocking=True))).float().cpu())
            advance(len(batch))
    return torch.cat(parts)
