"""Every operation agrees with timm's, which is PIL's, and every image has its own draw."""

import numpy as np
import pytest
import torch
from PIL import Image
from timm.data import auto_augment as timm_ops
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from hardpair.views import Draw
from hardpair.views import randaugment as module
from hardpair.views.randaugment import FILL, NAMES, randaugment

GEOMETRIC = tuple(module._GEOMETRIC)
NOTHING = len(NAMES)
EXACT = ("Equalize", "Invert", "Posterize", "Solarize", "SolarizeAdd")  # levels in, levels out


def random_images(count: int = 6, size: int = 32) -> Tensor:
    """8-bit images as floats: noise, smooth ones, and some that do not use all levels."""
    generator = torch.Generator().manual_seed(count)
    noise = torch.rand(count, 3, size, size, generator=generator)
    smooth = F.interpolate(noise[:, :, :4, :4], size=(size, size), mode="bicubic").clamp(0, 1)
    images = torch.where(torch.arange(count).view(-1, 1, 1, 1) % 2 == 0, smooth, noise)
    images[count // 2 :] = 0.2 + 0.5 * images[count // 2 :]
    return images.mul(255).round() / 255


def timm_op(image: Tensor, name: str, level: float, sign: float) -> Tensor:
    """One image through timm's operation, with its argument at that level and sign, and bilinear interpolation."""
    to_argument = timm_ops.LEVEL_TO_ARG[name]
    arguments = [] if to_argument is None else [abs(x) for x in to_argument(10 * level, {})]
    if name in GEOMETRIC:
        arguments = [sign * x for x in arguments]
    picture = Image.fromarray(image.mul(255).round().byte().permute(1, 2, 0).numpy())
    changed = timm_ops.NAME_TO_OP[name](picture, *arguments, resample=Image.Resampling.BILINEAR, fillcolor=FILL)
    return torch.from_numpy(np.array(changed)).permute(2, 0, 1) / 255


def ours(images: Tensor, name: str, level: float, sign: float) -> Tensor:
    changed, numbers = images.clone(), torch.ones(len(images))
    module._apply(changed, (numbers * NAMES.index(name)).long(), numbers * level, numbers * sign)
    return changed


def test_operations_are_those_of_timm():
    assert set(NAMES) == set(timm_ops._RAND_TRANSFORMS)


@pytest.mark.parametrize("level", [1.0, 0.88, 0.45, 0.26])
@pytest.mark.parametrize("name", module._POINTWISE)
def test_pointwise_operations(name, level):
    images = random_images()
    expected = torch.stack([timm_op(image, name, level, 1.0) for image in images])
    close = 1e-5 if name in EXACT else 2 / 255  # PIL cuts fractions off, and rounds the luminance as well
    torch.testing.assert_close(ours(images, name, level, 1.0), expected, rtol=0, atol=close)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("level", [1.0, 0.45])
@pytest.mark.parametrize("name", GEOMETRIC)
@pytest.mark.parametrize("size", [32, 33])
def test_geometric_operations(name, level, sign, size):
    images = random_images(size=size)
    expected = torch.stack([timm_op(image, name, level, sign) for image in images])
    off = (ours(images, name, level, sign) - expected).abs() > 2 / 255
    assert off.float().mean() < 0.002  # a pixel whose centre falls on the border


def test_levels_do_not_hang_on_float_rounding():
    halves = (torch.arange(255) + 0.5) / 255
    assert torch.equal(module._levels(halves), torch.arange(1.0, 256))
    assert torch.equal(module._levels(torch.arange(256) / 255 * (1 - 1e-6)), torch.arange(256.0))


def test_draws_have_timms_shares():
    """Half of the images get nothing, the others any operation; magnitudes are normal but cut at the top."""
    operation, level, sign = module._choose(Draw(0, 0, torch.arange(60_000)).uniforms("x", 4), 10, 0.5)
    shares = torch.bincount(operation, minlength=NOTHING + 1) / len(operation)
    assert abs(shares[NOTHING] - 0.5) < 0.01
    assert (shares[:NOTHING] - 1 / 30).abs().max() < 0.004
    assert abs((level == 1).float().mean() - 0.5) < 0.01
    assert abs((level > 0.95).float().mean() - 0.8413) < 0.01  # one deviation below the mean
    assert abs(sign.mean()) < 0.02
    for numbers in (level, sign):
        assert abs(torch.corrcoef(torch.stack([operation.float(), numbers]))[0, 1]) < 0.02


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_the_ends_of_the_random_numbers_are_finite(noise):
    ends = torch.tensor([[0.0] * 4, [1 - 2.0**-24] * 4])
    operation, level, _ = module._choose(ends, 10, noise)
    assert operation.tolist() == [0, NOTHING]
    assert level.isfinite().all()


def test_two_layers_are_timms_operations_one_after_the_other():
    images, draw = random_images(60), Draw(3, 1, torch.arange(60))
    numbers = draw.uniforms("randaugment", 8).view(-1, 2, 4)
    layers = [zip(*(x.tolist() for x in module._choose(numbers[:, k], 10, 0.5)), strict=True) for k in range(2)]
    expected = []
    for image, *drawn in zip(images, *layers, strict=True):
        changed = image
        for operation, level, sign in drawn:
            changed = changed if operation == NOTHING else timm_op(changed, NAMES[operation], level, sign)
        expected.append(changed)
    error = (randaugment(images, draw) - torch.stack(expected)).abs()
    # PIL rounds between the two, which a second operation can enlarge, most of all posterize: from a level to sixteen.
    assert error.mean() < 0.5 / 255
    assert (error > 4 / 255).float().mean(dim=(1, 2, 3)).max() < 0.15


def test_half_of_the_images_change_in_a_layer():
    images = (0.2 + 0.5 * torch.rand(1, 3, 24, 24, generator=torch.Generator().manual_seed(0))).expand(1500, -1, -1, -1)
    changed = (randaugment(images, Draw(0, 0, torch.arange(1500)), layers=1) - images).abs().amax((1, 2, 3)) > 0
    assert abs(changed.float().mean() - 0.5 * 14 / 15) < 0.04  # solarize has nothing to do: no pixel is that light
    assert torch.equal(randaugment(images, Draw(0, 0, torch.arange(1500)), layers=0), images)


def test_an_images_result_depends_on_its_position_alone():
    images = random_images(96)
    whole = randaugment(images, Draw(7, 3, torch.arange(96)))
    assert torch.equal(whole, randaugment(images, Draw(7, 3, torch.arange(96))))
    alone = torch.cat([randaugment(images[k : k + 1], Draw(7, 3, torch.tensor([k]))) for k in range(96)])
    # A level may differ where a value lies on the edge between two, but not more than a pixel in a thousand does.
    assert ((whole - alone).abs() > 1e-5).float().mean(dim=(1, 2, 3)).max() < 0.001
    for other in (Draw(8, 3, torch.arange(96)), Draw(7, 4, torch.arange(96)), Draw(7, 3, torch.arange(96) + 96)):
        assert ((whole - randaugment(images, other)).abs() > 0.1).any(dim=(1, 2, 3)).float().mean() > 0.5


def test_input_is_not_changed_and_may_have_any_layout():
    images, draw = random_images(64), Draw(0, 0, torch.arange(64))
    before = images.clone()
    result = randaugment(images, draw)
    assert torch.equal(images, before)
    assert torch.equal(randaugment(images.contiguous(memory_format=torch.channels_last), draw), result)


@pytest.mark.parametrize("magnitude", [0, 5, 10])
def test_results_are_finite_and_in_range(magnitude):
    """Also for images of one colour, whose contrast and histogram have nothing to stretch."""
    flat = torch.tensor([0.0, 0.3, 1.0]).view(-1, 1, 1, 1).expand(-1, 3, 32, 32)
    images = torch.cat([random_images(30), torch.rand(30, 3, 32, 32), *[flat] * 60])
    result = randaugment(images, Draw(1, 1, torch.arange(len(images))), layers=3, magnitude=magnitude)
    assert result.isfinite().all()
    assert result.min() >= 0
    assert result.max() <= 1
    white, places = torch.ones(200, 3, 33, 33), torch.arange(200)
    assert module._move(white, places % len(GEOMETRIC), places / 200).max() <= 1
    for name in ("AutoContrast", "Equalize"):
        assert torch.equal(ours(flat, name, 1.0, 1.0), flat)
