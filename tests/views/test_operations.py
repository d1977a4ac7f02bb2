"""Every operation agrees with torchvision's for one image at equal parameters."""

from dataclasses import replace

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as tv

from hardpair.views import POLICIES, Draw, augmented_view, batched
from hardpair.views.parameters import crop_boxes

CLOSE = 1e-4  # far below 1/255: float against float
sizes = st.integers(8, 40)
seeds = st.integers(0, 100_000)


def random_images(seed: int, size: int, count: int = 6) -> torch.Tensor:
    """Uint8 images, some of them with flat and saturated areas, where hue and clamping are delicate."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 256, (count, 3, size, size), dtype=torch.uint8, generator=generator)
    images[1] = images[1] // 128 * 255
    images[2] = images[2, :1]
    return images


def agree(ours: torch.Tensor, theirs: list[torch.Tensor], uint8: list[torch.Tensor] | None = None) -> None:
    torch.testing.assert_close(ours, torch.stack(theirs), rtol=0, atol=CLOSE)
    if uint8 is not None:
        torch.testing.assert_close(ours, torch.stack(uint8).float() / 255, rtol=0, atol=1.001 / 255)


THEIRS = (tv.adjust_brightness, tv.adjust_contrast, tv.adjust_saturation, tv.adjust_hue)


def random_factors(seed: int, count: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    factors = torch.rand(count, 4, generator=generator) * torch.tensor([1.8, 1.8, 1.8, 1.0])
    factors[:, 3] -= 0.5
    factors[0] = torch.tensor([1.0, 1.0, 1.0, 0.0])  # nothing changes
    return factors


@settings(max_examples=30)
@given(seed=seeds, size=sizes, operation=st.sampled_from([0, 1, 2, 3]))
def test_each_colour_operation(seed, size, operation):
    whole = random_images(seed, size)
    images = whole.float() / 255
    factors = random_factors(seed + 1, len(images))
    ours = batched.jitter(images.clone(), factors, torch.full((len(images), 1), operation))
    numbers = factors[:, operation].tolist()
    # On uint8 torchvision also rounds the luminance that contrast and saturation then multiply, which float images do
    # not suffer; brightness and hue round once, at the end.
    once = operation in (batched.BRIGHTNESS, batched.HUE)
    agree(
        ours,
        [THEIRS[operation](x, f) for x, f in zip(images, numbers, strict=True)],
        [THEIRS[operation](x, f) for x, f in zip(whole, numbers, strict=True)] if once else None,
    )


@settings(max_examples=15)
@given(seed=seeds, size=sizes)
def test_grey(seed, size):
    images = random_images(seed, size).float() / 255
    agree(batched.grey(images), [tv.rgb_to_grayscale(x) for x in images])


@settings(max_examples=20)
@given(seed=seeds)
def test_jitter_in_any_order(seed):
    images = random_images(seed, 12).float() / 255
    factors = random_factors(seed + 1, len(images))
    generator = torch.Generator().manual_seed(seed + 2)
    order = torch.stack([torch.randperm(4, generator=generator) for _ in images])
    order[3] = -1
    expected = []
    for n in range(len(images)):
        changed = images[n]
        for index in order[n].tolist():
            changed = changed if index < 0 else THEIRS[index](changed, factors[n, index].item())
        expected.append(changed)
    agree(batched.jitter(images.clone(), factors, order), expected)


@settings(max_examples=30)
@given(seed=seeds, size=sizes)
def test_crop_flip_blur(seed, size):
    whole = random_images(seed, size)
    images = whole.float() / 255
    generator = torch.Generator().manual_seed(seed + 1)
    boxes = crop_boxes(torch.rand(len(images), 22, generator=generator), size, (0.05, 1.0))
    down = batched.crop_positions(boxes[:, 0], boxes[:, 2], size)
    across = batched.crop_positions(boxes[:, 1], boxes[:, 3], size)
    rows, columns = batched.sampling_matrix(down, size), batched.sampling_matrix(across, size)
    places = boxes.tolist()
    agree(
        batched.apply(images, rows, columns),
        [tv.resized_crop(x, *box, [size, size]) for x, box in zip(images, places, strict=True)],
        [tv.resized_crop(x, *box, [size, size]) for x, box in zip(whole, places, strict=True)],
    )
    blur = batched.blur_matrix(size, 3, torch.full((len(images),), 1.5))
    agree(
        batched.apply(images, blur, blur),
        [tv.gaussian_blur(x, [3, 3], [1.5, 1.5]) for x in images],
        [tv.gaussian_blur(x, [3, 3], [1.5, 1.5]) for x in whole],
    )
    flipped = batched.sampling_matrix(size - across, size)
    agree(
        batched.apply(images, rows @ blur, flipped @ blur),
        [
            tv.resized_crop(tv.gaussian_blur(tv.horizontal_flip(x), [3, 3], [1.5, 1.5]), *box, [size, size])
            for x, box in zip(images, places, strict=True)
        ],
    )


@settings(max_examples=30)
@given(seed=seeds, size=sizes, out=st.integers(4, 40))
def test_crops_of_any_size(seed, size, out):
    """Shrunk with antialiasing, enlarged without, as torchvision does."""
    whole = random_images(seed, size)
    images = whole.float() / 255
    generator = torch.Generator().manual_seed(seed + 1)
    boxes = crop_boxes(torch.rand(len(images), 22, generator=generator), size, (0.05, 1.0))
    rows = batched.shrinking_matrix(boxes[:, 0], boxes[:, 2], size, out)
    columns = batched.shrinking_matrix(boxes[:, 1], boxes[:, 3], size, out)
    agree(
        batched.apply(images, rows, columns),
        [tv.resized_crop(x, *box, [out, out]) for x, box in zip(images, boxes.tolist(), strict=True)],
        [tv.resized_crop(x, *box, [out, out]) for x, box in zip(whole, boxes.tolist(), strict=True)],
    )


def test_wide_blur_reflects_like_torchvision():
    images = random_images(0, 24).float() / 255
    blur = batched.blur_matrix(24, 23, torch.full((len(images),), 2.0))
    agree(batched.apply(images, blur, blur), [tv.gaussian_blur(x, [23, 23], [2.0, 2.0]) for x in images])


def test_boxes_are_spread_like_torchvisions():
    """Same mean and standard deviation of area, aspect and place over many draws."""
    torch.manual_seed(0)
    top, left, height, width = crop_boxes(torch.rand(20_000, 22), 32, (0.2, 1.0)).unbind(1)
    theirs = [v2.RandomResizedCrop(32, scale=(0.2, 1.0)).make_params([torch.empty(3, 32, 32)]) for _ in range(5_000)]
    for name, ours in {"top": top, "left": left, "height": height, "width": width}.items():
        expected = torch.tensor([float(p[name]) for p in theirs])
        assert abs(ours.float().mean() - expected.mean()) < 0.25, name
        assert abs(ours.float().std() - expected.std()) < 0.25, name
    assert (top + height).max() <= 32
    assert (left + width).max() <= 32


def test_constants_have_the_precision_of_what_is_computed_with_them():
    """Whatever was computed before in the same process: in double precision no view hangs on a rounding to single."""
    images, draw = random_images(0, 8), Draw(0, 0, torch.arange(6))
    policies = [replace(POLICIES[name], jitter=1.0) for name in ("balanced", "infomin")]
    for policy in policies:
        augmented_view(images, policy, draw)
    torch.set_default_dtype(torch.float64)
    try:
        after = [augmented_view(images, policy, draw) for policy in policies]
        batched.constant.cache_clear()
        afresh = [augmented_view(images, policy, draw) for policy in policies]
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(torch.equal(a, b) for a, b in zip(after, afresh, strict=True))
