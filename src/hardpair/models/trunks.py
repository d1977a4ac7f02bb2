"""The ResNets of encoders, built of timm's parts: any depth and width, a stem for small images, and no head."""

from typing import Any

from timm.layers.norm import GroupNorm1
from timm.models.resnet import BasicBlock, Bottleneck, ResNet, downsample_conv
from torch import Tensor, nn
from torch.nn.functional import conv2d

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
    if channels[0] < 8 and not bottlenecks:
        second: Any = trunk.layer2
        second[0].downsample[0] = SubsamplingConv(channels[0], channels[1], 1, stride=2, bias=False)
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
