"""One step: its images, fetched while the step before is computed, its gradient, its statistics."""

import dataclasses
import threading
from pathlib import Path

import pytest
import torch
from shared_steps import photos, recipe_of

from hardpair import distributed
from hardpair.data import Images, open_images
from hardpair.train.optimisers import learning_rate
from hardpair.train.step import Fetcher, Stepper

CPU, STEPS = torch.device("cpu"), 6


@pytest.fixture(scope="module")
def images():
    return open_images("sample", "train", size=8, root=Path())


def rows_of(step):
    return torch.tensor([step, 100 + step])


@pytest.mark.parametrize("steps", [range(STEPS), [3, 4, 5], [0, 0, 1], [2, 0, 5, 1]], ids=str)
def test_every_step_has_its_own_images(images, steps):
    fetcher = Fetcher(images, STEPS, CPU)
    for step in steps:
        rows, pixels = fetcher.batch(step, rows_of)
        assert torch.equal(rows, rows_of(step))
        assert torch.equal(pixels, images.pixels[rows])


def test_the_next_batch_is_on_its_way_before_it_is_asked_for(images, monkeypatch):
    asked, batch, own = [threading.Event() for _ in range(STEPS)], Images.batch, dataclasses.replace(images)

    def noted(self, rows):
        if self is own:  # and not what another test has left on its way
            asked[rows[0]].set()
        return batch(self, rows)

    monkeypatch.setattr(Images, "batch", noted)
    fetcher = Fetcher(own, STEPS, CPU)
    for step in range(STEPS):
        fetcher.batch(step, rows_of)
        assert all(event.wait(5) for event in asked[: step + 2])
        assert not any(event.is_set() for event in asked[step + 2 :])


def test_trouble_with_the_images_reaches_the_step(images, monkeypatch):
    def broken(self, rows):
        raise OSError("the disk is gone")

    fetcher = Fetcher(images, STEPS, CPU)
    monkeypatch.setattr(Images, "batch", broken)
    with pytest.raises(OSError, match="the disk is gone"):
        fetcher.batch(0, rows_of)


def test_no_thread_outlives_its_training(small_recipe, images):
    before = set(threading.enumerate())
    stepper = Stepper(small_recipe, images, CPU)
    stepper.take(0)
    threads = [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("fetch")]
    assert len(threads) == 1
    del stepper
    threads[0].join(5)
    assert not threads[0].is_alive()


@pytest.mark.parametrize(("clip", "share"), [(0.0, None), (1e6, None), (0.5, 0.5)])
def test_a_step_is_as_long_as_the_clipped_gradient(small_recipe, images, clip, share):
    """By plain descent: no clipping, none that is needed, and clipping to a half."""
    recipe = dataclasses.replace(small_recipe, optimiser="sgd", weight_decay=0.0, learning_rate=0.1, clip=clip)
    stepper = Stepper(recipe, images, CPU)
    before = [p.detach().clone() for p in stepper.trained]
    norm = stepper.take(0).outputs["gradient_norm"].item()
    assert norm > 0.6  # of the gradient as it was
    moved = torch.cat([(p - old).flatten() for p, old in zip(stepper.trained, before, strict=True)]).norm().item()
    assert moved == pytest.approx(learning_rate(recipe, 0, stepper.steps_per_epoch) * (share or norm), rel=1e-4)


def test_statistics_are_sent_all_at_once(monkeypatch):
    """Where batch norms see a part of the batch each: one message a step, and not one for each of hundreds."""
    stepper, sent = Stepper(recipe_of("moco, in splits"), photos(), torch.device("cpu")), []
    statistics = [buffer for group in stepper.statistics for buffer in group]
    before = [buffer.clone() for buffer in statistics]
    monkeypatch.setattr(distributed, "world_size", lambda: 2)
    monkeypatch.setattr(distributed, "mean", lambda values: sent.append(values) or values + 1)
    stepper._agree_on_statistics()
    assert len(sent) == 1
    for old, new in zip(before, statistics, strict=True):
        assert torch.equal(new, old + 1 if old.is_floating_point() else old)
