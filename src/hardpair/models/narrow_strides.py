"""A guard against a fault of torch (seen in 2.10 to 2.15) that strided 1x1 convolutions of narrow networks run into.

On a CPU, in the channels-last layout, the gradient of such a convolution writes past the end of its memory when there
are fewer input channels than floats in a vector register: 8 with AVX2, 16 with AVX-512. That ends in a segmentation
fault, or in nothing visible at all. `hardpair doctor` looks for it.
"""

from typing import Any

from torch import Tensor, nn

WIDEST_VECTOR = 16  # floats, of AVX-512; on every machine, so that all of them compute the same


class SubsampledConv(nn.Conv2d):
    """A 1x1 convolution of stride 1, applied to every second pixel: what one of stride 2 computes."""

    steps: tuple[int, ...]  # between pixels, down and across

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002, D102
        down, across = self.steps
        return super().forward(input[..., ::down, ::across])


def guard_narrow_strides(network: nn.Module) -> None:
    """Let every strided 1x1 convolution with too few input channels subsample first; names and weights stay."""
    for parent in network.modules():
        for name, child in parent.named_children():
            if _is_at_risk(child):
                setattr(parent, name, _subsampled(child))


def _is_at_risk(module: Any) -> bool:
    if type(module) is not nn.Conv2d:  # a subclass may compute something else
        return False
    strided_1x1 = module.kernel_size == (1, 1) and module.stride != (1, 1) and module.padding in ((0, 0), "valid")
    return strided_1x1 and module.in_channels // module.groups < WIDEST_VECTOR


def _subsampled(conv: Any) -> SubsampledConv:
    guarded = SubsampledConv(
        conv.in_channels, conv.out_channels, 1, groups=conv.groups, bias=conv.bias is not None, device="meta"
    )
    guarded.weight, guarded.bias, guarded.steps = conv.weight, conv.bias, conv.stride
    return guarded
