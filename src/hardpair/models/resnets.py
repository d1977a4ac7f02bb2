"""The ResNets of encoders, built of timm's parts: any depth and width, a stem for small images, and no head."""

from typing import Any

from timm.layers.norm import GroupNorm1
from timm.layers.selective_kernel import SelectiveKernelAttn
from timm.models.resnet import BasicBlock, Bottleneck, ResNet, downsample_conv
from timm.models.sknet import SelectiveKernelBottleneck
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, pad

Layers = tuple[int, int, int, int]
RATIO, SMALLEST = 16, 32  # width of the layer that weights the streams: a sixteenth of theirs, at least 32


def plain_resnet(
    layers: Layers,
    width: float,
    *,
    bottlenecks: bool,
    small_images: bool,
    zero_init: bool = False,
    inputs: int = 3,
    layer_norm: bool = False,
) -> Any:
    """A ResNet with batch norm, or layer norm."""
    channels, norm = _channels(width), GroupNorm1 if layer_norm else nn.BatchNorm2d
    block: Any = Bottleneck if bottlenecks else BasicBlock
    trunk = ResNet(
        block, layers, num_classes=0, channels=channels, in_chans=inputs, norm_layer=norm, zero_init_last=False
    )
    _set_stem(trunk, channels[0], small_images, inputs, norm)
    _initialise(trunk, zero_init=zero_init)
    return trunk


def selective_resnet(layers: Layers, width: float, *, small_images: bool, zero_init: bool = False) -> Any:
    """A ResNet of bottlenecks with selective kernels as in SimCLRv2: two 3x3 streams, weighted by what the image shows.

    Not timm's default form (which splits the input and dilates one stream), but built of its parts. With them come a
    stem of three 3x3 convolutions and shortcuts that pool before they project.
    """
    channels = _channels(width)
    block: Any = SelectiveKernelBottleneck  # timm's own types know two blocks only
    trunk: Any = ResNet(
        block,
        layers,
        num_classes=0,
        channels=channels,
        stem_type="deep",
        stem_width=channels[0] // 2,
        avg_down=True,
        zero_init_last=False,
        block_args={"sk_kwargs": {"kernel_size": 3, "split_input": False}},
    )
    if small_images:  # as in SimCLR's code, where the small stem takes the place of the deep one
        trunk.conv1 = nn.Conv2d(3, channels[0] // 2 * 2, 3, stride=1, padding=1, bias=False)
        trunk.maxpool = nn.Identity()
    for module in trunk.modules():
        if isinstance(module, SelectiveKernelBottleneck):
            _as_in_simclrv2(module)
    _initialise(trunk, zero_init=zero_init)
    return trunk


def _as_in_simclrv2(block: Any) -> None:
    width = block.conv2.out_channels
    block.conv2.attn = SelectiveKernelAttn(width, 2, max(width // RATIO, SMALLEST))
    if block.downsample is not None:
        block.downsample[0] = ShortcutPool(getattr(block.downsample[0], "stride", 1))


class ShortcutPool(nn.Module):
    """Mean of 2x2 pixels with a border of zeros at the bottom and on the right; also where the stride is 1."""

    def __init__(self, stride: int) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) → (N, C, H / stride, W / stride)."""
        return avg_pool2d(pad(x, (0, 1, 0, 1)), 2, self.stride)


def _channels(width: float) -> tuple[int, ...]:
    return tuple(round(c * width) for c in (64, 128, 256, 512))


def _initialise(trunk: Any, *, zero_init: bool) -> None:
    """timm's initial weights; the last norm of each residual branch starts at one unless `zero_init`.

    At zero a branch adds nothing until that weight has grown: in the few hundred steps of a small run with Adam this
    cost every method four to five points (docs/log.md). Long runs at scale begin so, as some methods have published.
    """
    trunk.init_weights(zero_init_last=zero_init)


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
