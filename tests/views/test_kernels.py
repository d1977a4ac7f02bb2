"""Views by the compiled kernels are those made by operations on the batch."""

import functools
import multiprocessing
import os
import threading
import time
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hardpair.views import POLICIES, Draw, augmented_view, kernels, parameters
from hardpair.views.parameters import ViewParameters, draw_parameters
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
    if policy.blur and policy.blur_width(out if policy.crop_first else size) // 2 >= out:
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
    chosen = ViewParameters(
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
            ours = kernels.kernel_view(images, policy, chosen, out)
            theirs = batched_view(images, policy, Draw(0, 0, torch.arange(8)), chosen, out)
            torch.testing.assert_close(ours, theirs, rtol=0, atol=CLOSE)


@pytest.fixture
def set_threads(monkeypatch):
    """Sets the number of threads of torch, for one test; each takes one view at a time."""
    before = torch.get_num_threads()
    monkeypatch.setattr(kernels, "CHUNK", 1)
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_threads_share_the_batch_and_change_nothing(set_threads, monkeypatch):
    images, draw, used = photos(0, 50, 24), Draw(3, 1, torch.arange(50)), set()
    real = kernels.make_views

    def slow(*arrays):
        used.add(threading.get_ident())
        time.sleep(0.002)  # or one thread could make them all before another has begun
        real(*arrays)

    monkeypatch.setattr(kernels, "make_views", slow)
    views = []
    for count in (1, 2, 4, 7):
        set_threads(count)
        views.append(augmented_view(images, POLICIES["simclr"], draw))
    assert all(torch.equal(views[0], other) for other in views[1:])
    assert len(used) > 1


def test_no_images_no_views():
    empty = torch.empty(0, 3, 16, 16, dtype=torch.uint8)
    assert augmented_view(empty, POLICIES["crop"], Draw(0, 0, torch.arange(0))).shape == (0, 3, 16, 16)


def test_a_fault_in_a_thread_is_not_lost(set_threads, monkeypatch):
    def fail(*arrays):
        if threading.current_thread() is not threading.main_thread():
            raise ValueError("no such view")
        time.sleep(0.01)  # leaves views for the others

    set_threads(4)
    monkeypatch.setattr(kernels, "make_views", fail)
    with pytest.raises(ValueError, match="no such view"):
        augmented_view(photos(0, 8, 8), POLICIES["crop"], Draw(0, 0, torch.arange(8)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # from Python 3.12 on, as there are threads
def test_a_forked_process_has_threads_of_its_own(set_threads):
    """Those of its parent are not there, and waiting for them would never end."""
    set_threads(4)
    chosen = draw_parameters(POLICIES["crop"], Draw(0, 0, torch.arange(8)), 8)
    make = functools.partial(kernels.kernel_view, photos(0, 8, 8), POLICIES["crop"], chosen, 8)
    make()
    child = multiprocessing.get_context("fork").Process(target=make)
    child.start()
    child.join(timeout=60)
    child.kill()
    assert child.exitcode == 0


def test_without_numba_views_are_the_same(monkeypatch):
    images, draw = photos(0, 20, 24), Draw(3, 1, torch.arange(20), size=18)
    with_it = augmented_view(images, POLICIES["balanced"], draw)
    monkeypatch.setattr(parameters, "HAS_NUMBA", False)
    torch.testing.assert_close(augmented_view(images, POLICIES["balanced"], draw), with_it, rtol=0, atol=CLOSE)


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=10)
@given(seed=st.integers(0, 1000), size=st.integers(1, 300))
def test_what_is_chosen_is_the_same(name, seed, size):
    draw = Draw(seed, 2, torch.arange(500)).within("first", "second")
    by_kernel = vars(draw_parameters(POLICIES[name], draw, size))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parameters, "HAS_NUMBA", False)
        in_a_batch = vars(draw_parameters(POLICIES[name], draw, size))
    for field, ours in by_kernel.items():
        theirs = in_a_batch[field]
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype), field
        if field == "box":  # a side may lie on the edge between two pixels, up to floating-point rounding
            assert (ours != theirs).any(1).float().mean() <= 0.001
        else:
            torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
