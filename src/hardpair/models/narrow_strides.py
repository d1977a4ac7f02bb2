"""Guards against two faults of torch on CPUs (seen in 2.10 to 2.15) that strided convolutions run into.

1x1, in the channels-last layout: the gradient writes past the end of its memory when there are fewer input channels
than floats in a vector register: 8 with AVX2, 16 with AVX-512. That ends in a segmentation fault, or in nothing visible
at all. `hardpair doctor` looks for it.

3x3 in bfloat16, on a map of one pixel: the eight outer weights meet nothing but padding, so that their gradient is 0;
what comes out is what was in that memory before, sometimes NaN.
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


class CentredConv(nn.Conv2d):
    """A strided 3x3 convolution that leaves out the weights which meet only padding, on a map of one pixel."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002, D102
        if input.shape[-2:] != (1, 1):
            return super().forward(input)
        return nn.functional.conv2d(input, self.weight[..., 1:2, 1:2], self.bias, groups=self.groups)


def guard_strides(network: nn.Module) -> None:
    """Replace every convolution that a fault can befall by one that computes the same; names and weights stay."""
    for parent in network.modules():
        for name, child in parent.named_children():
            if type(child) is not nn.Conv2d or child.stride == (1, 1):  # a subclass may compute something else
                continue
            if _is_narrow(child):
                setattr(parent, name, _subsampled(child))
            elif _is_centred(child):
                setattr(parent, name, _centred(child))


def _is_narrow(conv: nn.Conv2d) -> bool:
    plain = conv.kernel_size == (1, 1) and conv.padding in ((0, 0), "valid")
    return plain and conv.in_channels // conv.groups < WIDEST_VECTOR


def _is_centred(conv: nn.Conv2d) -> bool:
    return (conv.kernel_size, conv.padding, conv.dilation, conv.padding_mode) == ((3, 3), (1, 1), (1, 1), "zeros")


def _subsampled(conv: Any) -> SubsampledConv:
    guarded = SubsampledConv(
        conv.in_channels, conv.out_channels, 1, groups=conv.groups, bias=conv.bias is not None, device="meta"
    )
    guarded.weight, guarded.bias, guarded.steps = conv.weight, conv.bias, conv.stride
    return guarded


def _centred(conv: Any) -> CentredConv:
    sizes = {"stride": conv.stride, "padding": 1, "groups": conv.groups, "bias": conv.bias is not None}
    guarded = CentredConv(conv.in_channels, conv.out_channels, 3, **sizes, device="meta")
    guarded.weight, guarded.bias = conv.weight, conv.bias
    return guarded
