"""The ResNets of encoders, built of timm's parts: any depth and width, a stem for small images, and no head."""

from typing import Any

from timm.layers.norm import GroupNorm1
from timm.models.resnet import BasicBlock, Bottleneck, ResNet, downsample_conv
from torch import nn

from hardpair.models.selective import selective_trunk

Layers = tuple[int, int, int, int]


def plain_trunk(
    layers: Layers, width: float, *, bottlenecks: bool, small_images: bool, inputs: int = 3, layer_norm: bool = False
) -> Any:
    """A ResNet with batch norm, or layer norm."""
    channels, norm = _channels(width), GroupNorm1 if layer_norm else nn.BatchNorm2d
    block: Any = Bottleneck if bottlenecks else BasicBlock
    trunk = ResNet(
        block, layers, num_classes=0, channels=channels, in_chans=inputs, norm_layer=norm, zero_init_last=False
    )
    _set_stem(trunk, channels[0], small_images, inputs, norm)
    _initialise(trunk)
    return trunk


def trunk_with_selective_kernels(layers: Layers, width: float, *, small_images: bool) -> Any:
    """A ResNet of bottlenecks with selective kernels."""
    trunk = selective_trunk(layers, _channels(width), small_images=small_images)
    _initialise(trunk)
    return trunk


def _channels(width: float) -> tuple[int, ...]:
    return tuple(round(c * width) for c in (64, 128, 256, 512))


def _initialise(trunk: Any) -> None:
    """timm's weights, but residual branches speak from the start.

    Their last batch norm at zero, timm's default, silences them until it has grown: in the few hundred steps of a small
    run with Adam that cost every method four to five points (docs/log.md). Built with ones, it stays so.
    """
    trunk.init_weights(zero_init_last=False)


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
