"""The cache of features: computed once, never stale, never harmful."""

import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from hostile import BAD_NPY, Trap, trap

from hardpair import build_encoder
from hardpair.data import open_images
from hardpair.data.cache import cache_folder
from hardpair.evaluate import features
from hardpair.evaluate.features import features_of

CPU = torch.device("cpu")


@pytest.fixture
def images(tmp_path):
    return open_images("sample", "test", size=8, root=tmp_path).select(torch.arange(40))


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    return build_encoder("resnet10", width=1 / 16, small_images=True).eval()


@pytest.fixture
def counted(monkeypatch):
    """How many batches were computed."""
    seen = []

    def spy(batch, size):
        seen.append(len(batch))
        return plain(batch, size)

    plain = features.plain_view
    monkeypatch.setattr(features, "plain_view", spy)
    return seen


def files():
    return sorted((cache_folder() / "features").iterdir())


def test_the_second_time_they_come_from_the_disk(encoder, images, counted):
    first = features_of(encoder, images, CPU)
    again = features_of(encoder, images, CPU)
    assert counted == [40]
    assert torch.equal(first, again)
    assert first.shape == (40, encoder.num_features)
    assert [file.suffix for file in files()] == [".npy"]
    assert np.array_equal(np.load(files()[0]), first.numpy())


def test_another_weight_or_pixel_is_computed_anew(encoder, images, counted):
    first = features_of(encoder, images, CPU)
    other = replace(images, block=images.pixels, rows=None)
    other.pixels[3, 0, 0, 0] ^= 255
    assert not torch.equal(features_of(encoder, other, CPU), first)
    encoder.trunk.bn1.running_mean += 0.5  # a statistic counts as much as a weight
    assert not torch.equal(features_of(encoder, images, CPU), first)
    assert counted == [40, 40, 40]


def test_a_caller_cannot_change_the_file(encoder, images):
    for _ in range(2):
        features_of(encoder, images, CPU).zero_()
    assert features_of(encoder, images, CPU).abs().sum() > 0


def test_a_damaged_file_is_computed_again(encoder, images, counted):
    first = features_of(encoder, images, CPU).clone()
    files()[0].write_bytes(files()[0].read_bytes()[:-100])
    assert torch.equal(features_of(encoder, images, CPU), first)
    np.save(files()[0], np.zeros((40, 3), np.float32))
    assert torch.equal(features_of(encoder, images, CPU), first)
    assert counted == [40, 40, 40]


def test_a_strangers_file_is_computed_again_and_runs_no_code(encoder, images, counted, tmp_path):
    first = features_of(encoder, images, CPU).clone()
    content, canary = trap(tmp_path)
    np.save(tmp_path / "objects.npy", np.array([[Trap(canary)]] * 40, dtype=object), allow_pickle=True)
    strange = [content, (tmp_path / "objects.npy").read_bytes(), *BAD_NPY.values()]
    for bad in strange:
        files()[0].write_bytes(bad)
        assert torch.equal(features_of(encoder, images, CPU), first)
    assert len(counted) == 1 + len(strange)
    assert not canary.exists()


def test_without_a_place_to_write_it_still_works(encoder, images, monkeypatch, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HARDPAIR_CACHE", str(tmp_path / "file"))
    assert features_of(encoder, images, CPU).shape == (40, encoder.num_features)
    assert "computed again next time" in caplog.text


def test_two_at_once(encoder, images, monkeypatch):
    together = threading.Barrier(2)  # both are past the look into the cache before either writes
    plain = features.plain_view

    def wait(batch, size):
        together.wait(10)
        return plain(batch, size)

    monkeypatch.setattr(features, "plain_view", wait)
    results = []
    both = [threading.Thread(target=lambda: results.append(features_of(encoder, images, CPU))) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert torch.equal(*results)
    assert [file.suffix for file in files()] == [".npy"]


def test_nothing_is_left_behind_by_a_failure(encoder, images, monkeypatch):
    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(features, "plain_view", fail)
    with pytest.raises(MemoryError):
        features_of(encoder, images, CPU)
    assert files() == []
