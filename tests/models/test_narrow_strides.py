"""The guard of narrow strided convolutions: it covers every encoder, and changes no result."""

import copy

import pytest
import torch
from torch import nn

from hardpair import build_encoder
from hardpair.models.narrow_strides import CentredConv, SubsampledConv, guard_strides

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
    guard_strides(guarded)
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


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("size", [(1, 1), (1, 2), (2, 2), (5, 4)])
def test_a_map_of_one_pixel_gives_what_it_gave(size, groups):
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Conv2d(8, 12, 3, stride=2, padding=1, groups=groups)).double()
    guarded = copy.deepcopy(plain)
    guard_strides(guarded)
    assert isinstance(guarded[0], CentredConv)
    assert guarded.state_dict().keys() == plain.state_dict().keys()
    images = torch.randn(3, 8, *size, dtype=torch.float64)
    for network in (plain, guarded):
        network(images).square().sum().backward()
    torch.testing.assert_close(guarded(images), plain(images))
    torch.testing.assert_close(guarded[0].weight.grad, plain[0].weight.grad)


def test_outer_weights_have_no_gradient_on_a_map_of_one_pixel():
    """In bfloat16 torch leaves there what was in memory; unless it is filled before, often 0."""
    network = nn.Sequential(nn.Conv2d(32, 64, 3, stride=2, padding=1, bias=False))
    guard_strides(network)
    images = torch.randn(288, 32, 1, 1)
    for _ in range(20):
        network.zero_grad()
        junk = [torch.full((count,), torch.nan) for count in (500, 4000, 30_000, 64 * 32 * 9)]
        del junk
        with torch.autocast("cpu", torch.bfloat16):
            network(images).float().square().sum().backward()
        gradient = network[0].weight.grad
        assert gradient[..., 1, 1].abs().sum() > 0
        gradient[..., 1, 1] = 0
        assert torch.equal(gradient, torch.zeros_like(gradient))


def test_what_is_not_at_risk_is_left_alone():
    network = nn.Sequential(
        nn.Conv2d(16, 8, 1, stride=2),
        nn.Conv2d(8, 8, 3, stride=2),
        nn.Conv2d(8, 8, 1),
        nn.Conv2d(8, 8, 1, 2, padding=1),
    )
    before = list(network)
    guard_strides(network)
    assert list(network) == before
