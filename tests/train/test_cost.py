"""What a method costs, in forwards of its encoder: counted, and near what the papers' pseudo-code says."""

import dataclasses

import pytest
import torch

from hardpair.data import Images
from hardpair.recipes import find_recipe
from hardpair.train.cost import forward_equivalents


@pytest.fixture(scope="module")
def images():
    pixels = torch.randint(256, (64, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    return Images(pixels, torch.arange(64) % 10, tuple("abcdefghij"), name="noise/train")


def cost(images, name, **changes):
    fields = {"encoder": "resnet18", "width": 0.25, "batch_size": 16, "view_size": 1.0, **changes}
    return forward_equivalents(dataclasses.replace(find_recipe(name), **fields), images)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("demo/supervised", 3),  # one view, forward and backward
        ("paper", 4),  # one view with a gradient, one without
        ("demo/simclr", 6),  # two views with
        ("demo/byol", 8),  # two with, two without
    ],
)
def test_near_the_count_of_passes(images, name, expected):
    """What is left: the first convolution needs no gradient of its input (-0.5 % here), heads and losses add (+1 %)."""
    assert cost(images, name) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("name", ["paper", "demo/simclr"])
def test_smaller_views_cost_less(images, name):
    """Views of 24 px have 56 % of the pixels; evaluated images, which are the unit of the count, keep all of theirs."""
    assert cost(images, name, view_size=0.75) == pytest.approx(0.75**2 * cost(images, name), rel=0.02)


def test_a_small_view_costs_by_its_pixels(images):
    with_one, without = (
        cost(images, "demo/hnpm", settings={**find_recipe("demo").settings, "small_views": count, "small_size": 0.5})
        for count in (1, 0)
    )
    assert with_one - without == pytest.approx(3 / 4, rel=0.02)


def test_two_streams_of_half_the_width_cost_about_half(images):
    assert 1.2 < cost(images, "demo/cmc") < 2.2


def test_a_larger_batch_compares_more_pairs(images):
    small = {"encoder": "resnet10", "width": 1 / 16, "image_size": 8}
    assert cost(images, "demo/simclr", batch_size=64, **small) > 1.001 * cost(images, "demo/simclr", **small)


def test_a_batch_beyond_all_images_and_the_random_state(images):
    state = torch.get_rng_state()
    whole, beyond = (cost(images, "demo/hnpm", encoder="resnet10", width=1 / 16, batch_size=n) for n in (64, 4096))
    assert whole == beyond
    assert torch.equal(torch.get_rng_state(), state)
