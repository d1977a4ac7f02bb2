"""Whole views and the random numbers behind them."""

import pytest
import torch
from torchvision.transforms.v2 import functional as tv

from hardpair.pixels import MEAN, STD
from hardpair.views import POLICIES, Draw, augmented_view, plain_view


def images(count: int = 12, size: int = 16) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randint(0, 256, (count, 3, size, size), dtype=torch.uint8)


def test_uniform_numbers_are_uniform_and_independent():
    draw = Draw(0, 0, torch.arange(50_000))
    a, b = draw.uniforms("a", 2).unbind(1)
    next_step, next_seed = (Draw(*key, torch.arange(50_000)).uniforms("a", 1)[:, 0] for key in ((0, 1), (1, 0)))
    other_name = draw.uniforms("b", 1)[:, 0]
    for numbers in (a, b, next_step, next_seed, other_name):
        assert numbers.min() >= 0
        assert numbers.max() < 1
        assert abs(numbers.mean() - 0.5) < 0.01
        assert abs(numbers.var() - 1 / 12) < 0.002
        assert (torch.histc(numbers, 20, 0, 1) / 2500 - 1).abs().max() < 0.1
    for other in (b, next_step, next_seed, other_name, a.roll(1)):
        assert abs(torch.corrcoef(torch.stack([a, other]))[0, 1]) < 0.02


@pytest.mark.parametrize("policy", POLICIES)
def test_an_images_view_depends_on_its_position_alone(policy):
    whole = augmented_view(images(), POLICIES[policy], Draw(7, 3, torch.arange(12)))
    part = augmented_view(images()[5:9], POLICIES[policy], Draw(7, 3, torch.arange(5, 9)))
    torch.testing.assert_close(whole[5:9], part, rtol=0, atol=1e-5)
    again = augmented_view(images(), POLICIES[policy], Draw(7, 3, torch.arange(12)))
    assert torch.equal(whole, again)
    other_step = augmented_view(images(), POLICIES[policy], Draw(7, 4, torch.arange(12)))
    other_scope = augmented_view(images(), POLICIES[policy], Draw(7, 3, torch.arange(12)).within("student"))
    assert not torch.allclose(whole, other_step, atol=0.1)
    assert not torch.allclose(whole, other_scope, atol=0.1)


def test_paper_policy_is_the_papers():
    policy = POLICIES["paper"]
    assert (policy.brightness, policy.contrast, policy.saturation, policy.hue) == (0.8, 0.8, 0.8, 0.2)
    assert (policy.jitter, policy.grey, policy.flip, policy.blur) == (0.8, 0.2, 0.5, 0.1)
    assert (policy.blur_kernel, policy.blur_sigma, policy.crop) == (3, (1.5, 1.5), (0.8, 1.0))


def test_shares_of_images_touched():
    """Grey views are those drawn grey; the shares of all operations are the policy's."""
    draw = Draw(0, 0, torch.arange(4000))
    view = augmented_view(images(1, 8).expand(4000, -1, -1, -1), POLICIES["paper"], draw)
    pixels = view * torch.tensor(STD).view(3, 1, 1) + torch.tensor(MEAN).view(3, 1, 1)
    is_grey = (pixels.amax(1) - pixels.amin(1)).amax((1, 2)) < 1e-4
    assert abs(is_grey.float().mean() - 0.2) < 0.02


def test_views_are_normalised_and_in_range():
    view = augmented_view(images(64), POLICIES["strong"], Draw(0, 0, torch.arange(64)))
    pixels = view * torch.tensor(STD).view(3, 1, 1) + torch.tensor(MEAN).view(3, 1, 1)
    assert pixels.min() > -1e-5
    assert pixels.max() < 1 + 1e-5
    expected = tv.normalize(images().float() / 255, list(MEAN), list(STD))
    torch.testing.assert_close(plain_view(images()), expected)


def test_input_is_not_changed():
    batch = images()
    before = batch.clone()
    augmented_view(batch, POLICIES["strong"], Draw(0, 0, torch.arange(12)))
    assert torch.equal(batch, before)
