"""Two encoders side by side: one sees how bright a pixel is, the other its colour (CMC)."""

import torch
from torch import Tensor, nn

from hardpair.pixels import MEAN, STD

# YDbDr, the colour space of CMC's improved form, and its mean and standard deviation on ImageNet. It is linear in
# RGB, so that undoing our normalisation, changing the space and normalising anew are one affine map.
YDBDR = ((0.299, 0.587, 0.114), (-0.450, -0.883, 1.333), (-1.333, 1.116, 0.217))
YDBDR_MEAN = (0.457, -0.082, -0.052)
YDBDR_STD = (0.5, 1.331, 1.333)


class ColourStreams(nn.Module):
    """Normalised RGB (N, 3, H, W) → features of luminance and of colour, side by side."""

    matrix: Tensor
    offset: Tensor

    def __init__(self, luminance: nn.Module, colour: nn.Module) -> None:
        super().__init__()
        self.luminance, self.colour = luminance, colour
        space, spread = torch.tensor(YDBDR), torch.tensor(YDBDR_STD)[:, None]
        matrix = space * torch.tensor(STD) / spread
        offset = (space @ torch.tensor(MEAN) - torch.tensor(YDBDR_MEAN)) / spread[:, 0]
        # Constants, not weights: they follow the device and stay out of the saved encoder.
        self.register_buffer("matrix", matrix[:, :, None, None], persistent=False)
        self.register_buffer("offset", offset, persistent=False)

    def streams(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Features of the luminance (N, D) and of the two colour channels (N, D)."""
        converted = nn.functional.conv2d(images, self.matrix, self.offset)
        return self.luminance(converted[:, :1]), self.colour(converted[:, 1:])

    def forward(self, images: Tensor) -> Tensor:
        """Both streams, (N, 2 D)."""
        return torch.cat(self.streams(images), dim=1)
