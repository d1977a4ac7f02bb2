"""ResNets with selective kernels as in SimCLRv2: two 3x3 streams a block, weighed by what the image shows.

Not timm's default form (which splits the input and dilates one stream), but built of its parts. With them come a stem
of three 3x3 convolutions and shortcuts that pool before they project.
"""

from typing import Any

from timm.layers.selective_kernel import SelectiveKernelAttn
from timm.models.resnet import ResNet
from timm.models.sknet import SelectiveKernelBottleneck
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, pad

RATIO, SMALLEST = 16, 32  # the layer that weighs the streams is a sixteenth as wide as they are, but at least so wide


def selective_trunk(layers: tuple[int, int, int, int], channels: tuple[int, ...], *, small_images: bool) -> Any:
    """A ResNet of bottlenecks with selective kernels; weights are not initialised yet."""
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
