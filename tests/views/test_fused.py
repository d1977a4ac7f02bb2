"""Views made image by image are those made by operations on the batch."""

import sys
import threading
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hardpair.views import POLICIES, Draw, augmented_view, fused, loops, team
from hardpair.views.parameters import Parameters, blur_width, draw_parameters
from hardpair.views.view import batched_view

CLOSE = 1e-4  # of normalised values, a 150th of an 8-bit level: places in an image are float32, and colours stretch
NAMES = [name for name, policy in POLICIES.items() if not policy.randaugment]


def photos(seed: int, count: int, size: int) -> torch.Tensor:
    """Noise, and what is awkward: black, white, grey, and pure colours."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 256, (count, 3, size, size), generator=generator, dtype=torch.uint8)
    images[0], images[1] = 0, 255
    images[2] = images[2, :1]
    images[3] = images[3] // 128 * 255
    return images


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=8)
@given(seed=st.integers(0, 1000), size=st.integers(2, 40), share=st.floats(0.2, 1.0))
def test_every_policy_at_every_size(name, seed, size, share):
    images, policy, out = photos(seed, 12, size), POLICIES[name], max(1, round(share * size))
    draw = Draw(seed, 1, torch.arange(12), size=out)
    if policy.blur and blur_width(policy, out if policy.crop_first else size) // 2 >= out:
        return  # more reflections than pixels: torchvision refuses it, too
    ours = augmented_view(images, policy, draw)
    theirs = batched_view(images, policy, draw, draw_parameters(policy, draw, size), out)
    assert ours.stride() == theirs.stride()  # channels last
    apart = (ours - theirs).abs() > CLOSE
    if policy.solarise:
        assert apart.float().mean() < 0.01  # a value on the edge may fall to either side
    else:
        assert not apart.any()


@settings(max_examples=30)
@given(seed=st.integers(0, 1000))
def test_parameters_beyond_any_policy(seed):
    """Factors of nothing and of much, hues all round, strong blur, the smallest and the whole box."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.stack([torch.randperm(4, generator=generator) for _ in range(8)])
    factors = torch.rand(8, 4, generator=generator) * 3
    factors[0], factors[1] = 0, torch.tensor([1.0, 1.0, 1.0, 0.0])
    box = torch.tensor([[0, 0, 16, 16], [15, 15, 1, 1], [0, 15, 16, 1], [3, 4, 5, 9]]).repeat(2, 1)
    chosen = Parameters(
        factors=factors,
        order=order,
        box=box,
        flipped=torch.rand(8, generator=generator) < 0.5,
        sigma=torch.tensor([0, 0, 0.01, 0.5, 1, 2, 10, 100]),
        grey=torch.rand(8, generator=generator) < 0.5,
        solarised=torch.zeros(8, dtype=torch.bool),
    )
    images = photos(seed, 8, 16)
    for crop_first in (True, False):
        policy = replace(POLICIES["paper"], blur_kernel=9, crop_first=crop_first)
        for out in (16, 11, 5):
            if crop_first and out == 5:
                policy = replace(policy, blur_kernel=7)
            width = blur_width(policy, out)
            ours = fused.fused_view(images, chosen, out, width, crop_first=crop_first)
            theirs = batched_view(images, policy, Draw(0, 0, torch.arange(8)), chosen, out)
            torch.testing.assert_close(ours, theirs, rtol=0, atol=CLOSE)


@pytest.fixture(params=["torch's threads", "threads of our own"] if sys.platform == "linux" else ["threads of our own"])
def threads(request, monkeypatch):
    """Both ways of sharing a batch, however small it is; torch has GNU's OpenMP on Linux alone."""
    monkeypatch.setattr(fused, "WORTH_A_THREAD", 1)
    if request.param == "threads of our own":
        monkeypatch.setattr(team, "_torchs_threads", lambda: None)
    else:
        assert team._torchs_threads() is not None


@pytest.mark.usefixtures("threads")
def test_threads_share_the_batch_and_change_nothing():
    images, draw = photos(0, 50, 24), Draw(3, 1, torch.arange(50))
    threads = torch.get_num_threads()
    views = []
    try:
        for count in (1, 2, 3, 7):
            torch.set_num_threads(count)
            views.append(augmented_view(images, POLICIES["simclr"], draw))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(views[0], other) for other in views[1:])


@pytest.mark.usefixtures("threads")
def test_a_fault_in_a_thread_is_not_lost(monkeypatch):
    def fail(*arrays):
        raise ValueError("no such view")

    monkeypatch.setattr(fused, "make_views", fail)
    with pytest.raises(ValueError, match="no such view"):
        augmented_view(photos(0, 8, 8), POLICIES["crop"], Draw(0, 0, torch.arange(8)))


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("parts", [1, 2, 5])
def test_every_part_is_done_once_and_by_several_threads(parts):
    """All wait for all: with fewer threads than parts this would not end."""
    done, together = [], threading.Barrier(parts)

    def work(part):
        together.wait(timeout=20)
        done.append((part, threading.get_ident()))

    team.share(work, parts)
    assert sorted(part for part, _ in done) == list(range(parts))
    assert len({thread for _, thread in done}) == parts


def test_without_numba_views_are_the_same(monkeypatch):
    images, draw = photos(0, 20, 24), Draw(3, 1, torch.arange(20), size=18)
    with_it = augmented_view(images, POLICIES["balanced"], draw)
    monkeypatch.setattr(loops, "HAS_NUMBA", False)
    torch.testing.assert_close(augmented_view(images, POLICIES["balanced"], draw), with_it, rtol=0, atol=CLOSE)


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=10)
@given(seed=st.integers(0, 1000), size=st.integers(1, 300))
def test_what_is_chosen_is_the_same(name, seed, size):
    draw = Draw(seed, 2, torch.arange(500)).within("first", "second")
    in_a_loop = vars(draw_parameters(POLICIES[name], draw, size))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loops, "HAS_NUMBA", False)
        in_a_batch = vars(draw_parameters(POLICIES[name], draw, size))
    for field, ours in in_a_loop.items():
        theirs = in_a_batch[field]
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype), field
        if field == "box":  # a side may lie on the edge between two pixels, to a rounding of single precision
            assert (ours != theirs).any(1).float().mean() <= 0.001
        else:
            torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


@given(
    st.integers(0, 2**63 - 1), st.integers(0, 2**40), st.lists(st.integers(0, 2**50), min_size=1), st.integers(1, 40)
)
@settings(max_examples=50)
def test_random_numbers_are_the_same_to_the_bit(seed, step, positions, count):
    draw = Draw(seed, step, torch.tensor(positions)).within("first", "second")
    with_it = draw.uniforms("colour", count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loops, "HAS_NUMBA", False)
        assert torch.equal(draw.uniforms("colour", count), with_it)
