"""Whole views and the random numbers behind them."""

import hashlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchvision.transforms.v2 import functional as tv

from hardpair.pixels import MEAN, STD
from hardpair.views import POLICIES, Draw, Policy, augmented_view, parameters, plain_view, two_views, view
from hardpair.views.parameters import crop_boxes, draw_parameters
from hardpair.views.view import batched_view


def images(count: int = 12, size: int = 16) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randint(0, 256, (count, 3, size, size), dtype=torch.uint8)


def hashed(position: int, name: str, column: int) -> float:
    """A random number of draw.py in plain whole numbers."""

    def mix(x: int) -> int:
        x = (x ^ x >> 16) * 0x7FEB352D % 2**32
        x = (x ^ x >> 15) * 0x846CA68B % 2**32
        return x ^ x >> 16

    words = hashlib.blake2b(name.encode(), digest_size=8).digest()
    own = mix((position ^ int.from_bytes(words[:4], "little")) % 2**32)
    return (mix((own + int.from_bytes(words[4:], "little") + column * 0x9E3779B9) % 2**32) >> 8) / 2**24


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**40), st.lists(st.integers(0, 2**50), min_size=1, max_size=5))
@settings(max_examples=30)
def test_numbers_are_a_hash_of_seed_step_position_and_name(seed, step, positions):
    """Bit for bit: a run that is resumed must draw what it would have drawn."""
    numbers = Draw(seed, step, torch.tensor(positions)).within("first", "second").uniforms("colour", 4)
    rows = [(scope, position) for scope in ("first", "second") for position in positions]
    expected = [[hashed(at, f"{seed}/{step}/{scope}/colour", column) for column in range(4)] for scope, at in rows]
    assert numbers.tolist() == expected


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


def test_a_policy_of_crops_alone_never_waits_for_the_device(monkeypatch):
    """Which images have an operation, none of them here, a GPU would have to be asked."""
    policy, draw = POLICIES["crop"], Draw(7, 3, torch.arange(12))
    chosen = draw_parameters(policy, draw, 16)
    expected = augmented_view(images(), policy, draw)
    monkeypatch.setattr(torch.Tensor, "nonzero", lambda _: pytest.fail("waited"))
    torch.testing.assert_close(batched_view(images(), policy, draw, chosen, 16), expected, rtol=0, atol=1e-5)


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


def between(uniform: torch.Tensor, low: float, high: float) -> float:
    return float(low + (high - low) * uniform)


def one_by_one(
    image: torch.Tensor, policy: Policy, colours: torch.Tensor, places: torch.Tensor, size: int
) -> torch.Tensor:
    """The usual order, by torchvision on one image with the numbers that image drew."""
    box = crop_boxes(places[None, :22], image.shape[-1], policy.crop)[0].tolist()
    # The flip before the crop: from which side a box is taken is chance in any case.
    view = tv.horizontal_flip(image / 255) if places[22] < policy.flip else image / 255
    view = tv.resized_crop(view, *box, [size, size])
    if colours[8] < policy.jitter:
        for operation in colours[4:8].argsort().tolist():
            low, high = max(0.0, 1 - JITTER[operation](policy)), 1 + JITTER[operation](policy)
            factor = between(colours[operation], low, high)
            if operation == 0:
                view = tv.adjust_brightness(view, factor)
            elif operation == 1:
                view = tv.adjust_contrast(view, factor)
            elif operation == 2:
                view = tv.adjust_saturation(view, factor)
            else:
                view = tv.adjust_hue(view, between(colours[3], -policy.hue, policy.hue))
    view = tv.rgb_to_grayscale(view, 3) if colours[9] < policy.grey else view
    if places[23] < policy.blur:
        kernel, sigma = max(3, size // 20 * 2 + 1), between(places[24], *policy.blur_sigma)
        view = tv.gaussian_blur(view, [kernel, kernel], [sigma, sigma])
    view = tv.solarize(view, 0.5) if places[25] < policy.solarise else view
    return tv.normalize(view, list(MEAN), list(STD))


JITTER = [
    lambda policy: policy.brightness,
    lambda policy: policy.contrast,
    lambda policy: policy.saturation,
    lambda policy: policy.hue,
]


@pytest.mark.parametrize("size", [24, 17])
@pytest.mark.parametrize("name", ["crop", "simclr", "moco", "byol_first", "byol_second", "instdisc_cifar"])
def test_usual_order_agrees_with_torchvision_image_by_image(name, size):
    batch, draw = images(40, 24), Draw(1, 2, torch.arange(40), size=size)
    colours, places = draw.uniforms("colour", 10), draw.uniforms("geometry", 26)
    ours = augmented_view(batch, POLICIES[name], draw)
    for n in range(len(batch)):
        theirs = one_by_one(batch[n], POLICIES[name], colours[n], places[n], size)
        apart = (ours[n] - theirs).abs() > 1 / 255 / min(STD)
        assert apart.float().mean() < 0.01, n  # a value on solarise's edge may fall to either side


def test_smaller_views_of_every_policy():
    """The paper's, whose blur comes before the crop, and a plain one among them."""
    batch, draw = images(16, 32), Draw(1, 2, torch.arange(16), size=24)
    for name, policy in POLICIES.items():
        small, whole = augmented_view(batch, policy, draw), augmented_view(batch, policy, draw.whole())
        assert small.shape == (16, 3, 24, 24), name
        shrunk = torch.nn.functional.interpolate(whole, (24, 24), mode="bilinear", antialias=True)
        noise = (small - shrunk).abs().mean() / (shrunk - shrunk.mean()).abs().mean()
        assert policy.randaugment or noise < 0.6, name  # random pixels: nothing is left of them where crops differ
    plain = plain_view(batch, 24)
    torch.testing.assert_close(plain[0], tv.normalize(tv.resize(batch[0] / 255, [24, 24]), list(MEAN), list(STD)))


def test_two_views_are_two():
    batch, draw = images(), Draw(1, 2, torch.arange(12))
    first, second = two_views(batch, "cifar", "cifar", draw)
    assert not torch.allclose(first, second, atol=0.1)
    apart = two_views(batch, "cifar", "crop", draw)[0]  # made by itself
    torch.testing.assert_close(first, apart, rtol=0, atol=1e-5)


def test_numbers_shared_by_a_step_do_not_depend_on_the_batch():
    numbers = Draw(1, 2, torch.arange(12)).shared("negatives", 5)
    assert numbers.shape == (5,)
    assert torch.equal(numbers, Draw(1, 2, torch.arange(6, 9)).shared("negatives", 5))
    assert not torch.equal(numbers, Draw(1, 3, torch.arange(12)).shared("negatives", 5))


@pytest.mark.parametrize(("policy", "scopes"), [("infomin", ("",)), ("simclr", ("first", "second")), ("paper", ("",))])
def test_a_large_batch_is_made_in_parts(monkeypatch, policy, scopes):
    """The same views, by operations on batches, whatever the number of images that these see at once."""
    monkeypatch.setattr(parameters, "HAS_NUMBA", False)
    draw = Draw(7, 3, torch.arange(12), size=12).within(*scopes)
    whole = augmented_view(images(), POLICIES[policy], draw)
    monkeypatch.setattr(view, "TOGETHER", 5)
    parts = augmented_view(images(), POLICIES[policy], draw)
    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-5)
    assert parts.stride() == whole.stride()
