"""Encoders: timm's ResNets of any depth and width, with a stem for small images, and no head."""

from typing import Any

from timm.layers.norm import GroupNorm1
from timm.models.resnet import BasicBlock, Bottleneck, ResNet, downsample_conv
from torch import Tensor, nn
from torch.nn.functional import conv2d

from hardpair.errors import UserError, nearest, require_range
from hardpair.models.colour_streams import ColourStreams
from hardpair.models.patch_grid import PatchGrid
from hardpair.models.selective import selective_trunk

DEPTHS: dict[str, tuple[Any, tuple[int, int, int, int]]] = {
    "resnet10": (BasicBlock, (1, 1, 1, 1)),
    "resnet14": (Bottleneck, (1, 1, 1, 1)),
    "resnet18": (BasicBlock, (2, 2, 2, 2)),
    "resnet26": (Bottleneck, (2, 2, 2, 2)),
    "resnet34": (BasicBlock, (3, 4, 6, 3)),
    "resnet50": (Bottleneck, (3, 4, 6, 3)),
    "resnet101": (Bottleneck, (3, 4, 23, 3)),
    "resnet152": (Bottleneck, (3, 8, 36, 3)),
    "resnet200": (Bottleneck, (3, 24, 36, 3)),
}


class Encoder(nn.Module):
    """(N, 3, H, W) normalised images → (N, num_features). Remembers the settings that rebuild it."""

    def __init__(self, trunk: nn.Module, num_features: int, settings: dict[str, Any]) -> None:
        super().__init__()
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
    settings = {"name": name, "width": width, "small_images": small_images}
    if colour_streams:
        luminance, colour = (_trunk(name, width / 2, small_images, inputs=inputs) for inputs in (1, 2))
        features = luminance.num_features + colour.num_features
        return Encoder(ColourStreams(luminance, colour), features, {**settings, "colour_streams": True})
    if patch:
        trunk = _trunk(name, width, small_images, norm=GroupNorm1)
        return Encoder(PatchGrid(trunk, patch), trunk.num_features, {**settings, "patch": patch})
    if sk:
        trunk = _selective(name, width, small_images)
        return Encoder(trunk, trunk.num_features, {**settings, "sk": True})
    trunk = _trunk(name, width, small_images)
    return Encoder(trunk, trunk.num_features, settings)


def _selective(name: str, width: float, small_images: bool) -> Any:
    block, layers = DEPTHS[name]
    if block is not Bottleneck:
        raise UserError(f"sk: selective kernels replace the middle of a bottleneck, and {name} has none; try resnet50")
    trunk = selective_trunk(layers, _channels(width), small_images=small_images)
    _initialise(trunk)
    return trunk


def _channels(width: float) -> tuple[int, ...]:
    return tuple(round(c * width) for c in (64, 128, 256, 512))


def _trunk(name: str, width: float, small_images: bool, *, inputs: int = 3, norm: Any = nn.BatchNorm2d) -> Any:
    block, layers = DEPTHS[name]
    channels = _channels(width)
    trunk = ResNet(
        block, layers, num_classes=0, channels=channels, in_chans=inputs, norm_layer=norm, zero_init_last=False
    )
    _set_stem(trunk, channels[0], small_images, inputs, norm)
    if channels[0] < 8 and block is BasicBlock:
        second: Any = trunk.layer2
        second[0].downsample[0] = SubsamplingConv(channels[0], channels[1], 1, stride=2, bias=False)
    _initialise(trunk)
    return trunk


def _initialise(trunk: Any) -> None:
    """timm's weights, but residual branches speak from the start.

    Their last batch norm at zero, timm's default, silences them until it has grown: in the few hundred steps of a small
    run with Adam that cost every method four to five points (docs/log.md). Built with ones, it stays so.
    """
    trunk.init_weights(zero_init_last=False)


class SubsamplingConv(nn.Conv2d):
    """A 1x1 convolution that drops pixels itself before it looks at the rest.

    With a stride of 2 and fewer than 8 channels, the gradient of torch's own (2.15) writes past the end of its memory
    on CPUs with AVX2 but not AVX-512. The result is the same.
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002, D102
        return conv2d(input[..., :: self.stride[0], :: self.stride[1]], self.weight)


def _set_stem(trunk: Any, channels: int, small_images: bool, inputs: int, norm: Any) -> None:
    """Give the stem its width (timm's is always 64) and, for small images, a kernel of 3 and stride 1."""
    if small_images:
        trunk.conv1 = nn.Conv2d(inputs, channels, 3, stride=1, padding=1, bias=False)
        trunk.maxpool = nn.Identity()
    else:
        trunk.conv1 = nn.Conv2d(inputs, channels, 7, stride=2, padding=3, bias=False)
    trunk.bn1 = norm(channels)
    first = trunk.layer1[0]
    first.conv1 = _with_inputs(first.conv1, channels)
    if isinstance(first, BasicBlock):
        first.downsample = None  # the stem is now as wide as the block, so the shortcut is the identity
    else:
        first.downsample = downsample_conv(channels, first.conv3.out_channels, 1, norm_layer=norm)


def _with_inputs(conv: nn.Conv2d, channels: int) -> nn.Conv2d:
    """The same convolution for another number of input channels."""
    return nn.Conv2d(
        channels,
        conv.out_channels,
        (conv.kernel_size[0], conv.kernel_size[1]),
        stride=(conv.stride[0], conv.stride[1]),
        padding=(conv.kernel_size[0] // 2, conv.kernel_size[1] // 2),
        bias=False,
    )
