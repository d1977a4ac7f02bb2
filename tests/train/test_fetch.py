"""The next batch is fetched while a step is computed, and it is the right one."""

import dataclasses
import threading
from pathlib import Path

import pytest
import torch

from hardpair.data import Images, open_images
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
