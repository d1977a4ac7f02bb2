"""The guard of narrow strided convolutions: it covers every encoder, and changes no result."""

import copy

import pytest
import torch
from torch import nn

from hardpair import build_encoder
from hardpair.models.narrow_strides import SubsampledConv, guard_narrow_strides

KINDS = {
    "basic": {"name": "resnet10"},
    "bottleneck": {"name": "resnet14"},
    "selective": {"name": "resnet14", "sk": True},
    "colour streams": {"name": "resnet10", "colour_streams": True},
    "patches": {"name": "resnet10", "patch": 8},
}


def strided_1x1(network):
    for module in network.modules():
        if isinstance(module, nn.Conv2d) and module.kernel_size == (1, 1) and module.stride != (1, 1):
            yield module


@pytest.mark.parametrize("small_images", [True, False])
@pytest.mark.parametrize("width", [1 / 16, 1 / 8, 1 / 4, 1 / 2])
@pytest.mark.parametrize("kind", KINDS)
def test_no_encoder_keeps_a_convolution_at_risk(kind, width, small_images):
    width = max(width, 1 / 8) if kind == "colour streams" else width  # two encoders of half the width
    encoder = build_encoder(**KINDS[kind], width=width, small_images=small_images)
    assert all(conv.in_channels >= 16 for conv in strided_1x1(encoder))


def test_wide_encoders_are_as_they_were():
    encoder = build_encoder("resnet10", width=1)
    assert len(list(strided_1x1(encoder))) == 3
    assert not any(isinstance(module, SubsampledConv) for module in encoder.modules())


@pytest.mark.parametrize("stride", [2, (1, 3)])
@pytest.mark.parametrize(("channels", "groups"), [(4, 1), (15, 1), (32, 4)])
def test_results_and_names_stay(stride, channels, groups):
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Conv2d(channels, 8, 1, stride=stride, groups=groups), nn.ReLU()).double()
    guarded = copy.deepcopy(plain)
    guard_narrow_strides(guarded)
    assert isinstance(guarded[0], SubsampledConv)
    assert guarded.state_dict().keys() == plain.state_dict().keys()
    images = torch.randn(2, channels, 7, 9, dtype=torch.float64)
    outputs = []
    for network in (plain, guarded):
        own = images.clone().requires_grad_()
        network(own).square().sum().backward()
        outputs.append([network(own), own.grad, *(p.grad for p in network.parameters())])
    for expected, found in zip(*outputs, strict=True):
        torch.testing.assert_close(found, expected)


def test_what_is_not_at_risk_is_left_alone():
    network = nn.Sequential(
        nn.Conv2d(16, 8, 1, stride=2),
        nn.Conv2d(8, 8, 3, stride=2),
        nn.Conv2d(8, 8, 1),
        nn.Conv2d(8, 8, 1, 2, padding=1),
    )
    before = list(network)
    guard_narrow_strides(network)
    assert list(network) == before
