"""Encoders: ResNets of any depth and width (trunks.py), alone, side by side, or on patches."""

import functools
from typing import Any

from torch import Tensor, nn

from hardpair.errors import UserError, nearest, require_range
from hardpair.models.colour_streams import ColourStreams
from hardpair.models.narrow_strides import guard_narrow_strides
from hardpair.models.patch_grid import PatchGrid

DEPTHS: dict[str, tuple[bool, tuple[int, int, int, int]]] = {  # bottlenecks or basic blocks, and how many a stage
    "resnet10": (False, (1, 1, 1, 1)),
    "resnet14": (True, (1, 1, 1, 1)),
    "resnet18": (False, (2, 2, 2, 2)),
    "resnet26": (True, (2, 2, 2, 2)),
    "resnet34": (False, (3, 4, 6, 3)),
    "resnet50": (True, (3, 4, 6, 3)),
    "resnet101": (True, (3, 4, 23, 3)),
    "resnet152": (True, (3, 8, 36, 3)),
    "resnet200": (True, (3, 24, 36, 3)),
}


class Encoder(nn.Module):
    """(N, 3, H, W) normalised images → (N, num_features). Remembers the settings that rebuild it."""

    def __init__(self, trunk: nn.Module, num_features: int, settings: dict[str, Any]) -> None:
        super().__init__()
        guard_narrow_strides(trunk)
        self.trunk = trunk
        self.settings = settings
        self.num_features = num_features
        self.step = 0  # how long it was trained

    def forward(self, images: Tensor) -> Tensor:
        """Pooled features."""
        features: Tensor = self.trunk(images)
        return features


def build_encoder(
    name: str,
    *,
    width: float = 1,
    sk: bool = False,
    small_images: bool = False,
    colour_streams: bool = False,
    patch: int = 0,
) -> Encoder:
    """A freshly initialised ResNet, ``"resnet50"`` say.

    ``width`` multiplies every convolution's channels, the stem's too (SimCLR's "2x"; a fraction makes a small net).
    ``sk`` gives the bottlenecks selective kernels in SimCLRv2's form.
    ``small_images`` replaces the stem by one 3x3 convolution of stride 1 without pooling, as is usual below 65 px.
    ``colour_streams`` makes two ResNets of half the width, one for luminance and one for colour (CMC).
    ``patch`` applies the ResNet, with layer norm, to overlapping patches of that side and averages (CPC).
    """
    if name not in DEPTHS:
        raise UserError(f"encoder: there is no {name!r}{nearest(name, DEPTHS)}")
    require_range("width", width, 1 / 8 if colour_streams else 1 / 16, 4)
    if patch:
        require_range("patch", patch, 2, 1024)
    if sk and (colour_streams or patch):
        raise UserError("sk: selective kernels go with whole images in colour, not with colour streams or patches")
    bottlenecks, layers = DEPTHS[name]
    if sk and not bottlenecks:
        raise UserError(f"sk: selective kernels replace the middle of a bottleneck, and {name} has none; try resnet50")
    from hardpair.models import trunks  # here, since timm takes two seconds to import

    settings = {"name": name, "width": width, "small_images": small_images}
    if sk:
        trunk = trunks.trunk_with_selective_kernels(layers, width, small_images=small_images)
        return Encoder(trunk, trunk.num_features, {**settings, "sk": True})
    plain = functools.partial(trunks.plain_trunk, layers, bottlenecks=bottlenecks, small_images=small_images)
    if colour_streams:
        luminance, colour = (plain(width / 2, inputs=inputs) for inputs in (1, 2))
        features = luminance.num_features + colour.num_features
        return Encoder(ColourStreams(luminance, colour), features, {**settings, "colour_streams": True})
    if patch:
        trunk = plain(width, layer_norm=True)
        return Encoder(PatchGrid(trunk, patch), trunk.num_features, {**settings, "patch": patch})
    trunk = plain(width)
    return Encoder(trunk, trunk.num_features, settings)
