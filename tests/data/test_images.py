"""What every data source becomes: selections, hashes, mapped files, the order of visits."""

import base64
import ctypes
import io
import mmap
import os
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from hardpair.data import Images, epoch_order
from hardpair.data.images import describe_image, map_file, read_ahead


def some_images() -> Images:
    pixels = torch.arange(5 * 3 * 2 * 2, dtype=torch.uint8).reshape(5, 3, 2, 2)
    return Images(pixels, torch.tensor([0, 1, 0, 1, 0]), ("a", "b"), "some/train", skipped=("x.jpg: broken",))


def test_select_keeps_order_labels_and_skipped() -> None:
    images = some_images()
    chosen = images.select(torch.tensor([4, 1]))
    assert torch.equal(chosen.pixels, images.pixels[[4, 1]])
    assert chosen.labels is not None
    assert chosen.labels.tolist() == [0, 1]
    assert (len(chosen), chosen.size, chosen.skipped) == (2, 2, images.skipped)


def test_select_without_labels() -> None:
    images = some_images()
    unlabelled = Images(images.pixels, None, (), "some/train")
    assert unlabelled.select(torch.tensor([0])).labels is None
    assert unlabelled.skipped == ()


def test_digest_sees_every_pixel_and_label() -> None:
    images, other = some_images(), some_images()
    assert images.digest() == other.digest()
    repainted, relabelled = some_images(), some_images()  # fresh ones: images do not change, so the hash is kept
    repainted.pixels[-1, -1, -1, -1] += 1
    assert images.digest() != repainted.digest()
    assert relabelled.labels is not None
    relabelled.labels[3] = 0
    assert images.digest() != relabelled.digest()


def test_a_selection_copies_nothing_until_it_is_asked() -> None:
    images = some_images()
    twice = images.select(torch.tensor([4, 1, 3])).select(torch.tensor([2, 0]))
    assert twice.block is images.block
    assert torch.equal(twice.pixels, images.pixels[[3, 4]])
    assert torch.equal(twice.batch(torch.tensor([1])), images.pixels[[4]])
    assert torch.equal(torch.cat(list(twice.batches(1))), images.pixels[[3, 4]])
    assert twice.digest() == Images(images.pixels[[3, 4]], twice.labels, images.classes, "other").digest()


def test_the_centre() -> None:
    large = Images(torch.arange(48, dtype=torch.uint8).reshape(1, 3, 4, 4), None, (), "large")
    assert large.centre(2).pixels[0, 0].tolist() == [[5, 6], [9, 10]]


def test_images_are_tested_on_the_centre_where_they_are_large_enough_for_one() -> None:
    """As 224 of 256 px; and what is shown is part of what the images are."""
    pixels = torch.randint(256, (2, 3, 32, 32), dtype=torch.uint8)
    stored = Images(pixels, None, (), "stored")
    tested = stored.tested_at(21)  # 24 px would do
    assert torch.equal(tested.pixels, pixels[:, :, 2:30, 2:30])
    assert tested.shown == 21
    assert tested.facts().items() >= {"square": 28, "shown": 21}.items()
    assert tested.select(torch.tensor([1])).shown == 21
    tight = stored.tested_at(30)
    assert torch.equal(tight.pixels, pixels)
    digests = [images.digest() for images in (stored, tested, tight, tested.shown_at(28), stored.tested_at(20))]
    assert len(set(digests)) == 5
    assert stored.tested_at(32) is stored
    assert stored.facts().keys() == {"name", "images", "digest"}


def test_a_picture_of_an_image_is_as_large_as_it_is_shown() -> None:
    stored = Images(torch.zeros(1, 3, 32, 32, dtype=torch.uint8), None, (), "stored")
    for images, side in ((stored, 32), (stored.shown_at(9), 9)):
        assert Image.open(io.BytesIO(base64.b64decode(describe_image(images, 0)["png"]))).size == (side, side)


def test_what_is_changed_stays_in_memory(tmp_path: Path) -> None:
    file = tmp_path / "numbers"
    np.arange(12, dtype=np.int64).tofile(file)
    found = map_file(file, (2, 5), np.int64, offset=16)
    assert found.tolist() == [[2, 3, 4, 5, 6], [7, 8, 9, 10, 11]]
    found[0, 0] = 99
    assert np.fromfile(file, dtype=np.int64)[2] == 2


def test_a_file_that_is_too_short(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(bytes(10))
    with pytest.raises(ValueError, match="length"):
        map_file(tmp_path / "short", (11,), np.uint8)


def test_a_file_larger_than_the_memory(tmp_path: Path) -> None:
    """Linux refuses a plain copy-on-write map of it; a cache or a packed set of that size must open nevertheless."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    length = 4 * memory
    with (tmp_path / "sparse").open("wb") as file:
        file.seek(length - 1)
        file.write(b"\7")  # the disk keeps only this
    found = map_file(tmp_path / "sparse", (length,), np.uint8)
    assert (found[0], found[length // 2], found[-1]) == (0, 0, 7)


def in_memory(row: torch.Tensor) -> bool:
    """Whether the system has all pages of it at hand."""
    start = row.data_ptr() // mmap.PAGESIZE * mmap.PAGESIZE
    length = row.data_ptr() + row.nbytes - start
    pages = (ctypes.c_ubyte * -(-length // mmap.PAGESIZE))()
    assert ctypes.CDLL(None).mincore(ctypes.c_void_p(start), ctypes.c_size_t(length), pages) == 0
    return all(page & 1 for page in pages)


def test_rows_are_read_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, before any is touched, and no others."""
    file, rows = tmp_path / "rows", torch.tensor([700, 3, 250])
    content = np.random.default_rng(0).integers(0, 256, (1000, 20_000), dtype=np.uint8)
    content.tofile(file)
    block = torch.from_numpy(map_file(file, content.shape, np.uint8))
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # a file system in memory keeps it all the same
    asked, advise = [], ctypes.CDLL(None).madvise

    class Library:
        def __init__(self, name: None) -> None: ...

        def madvise(self, start: ctypes.c_void_p, length: ctypes.c_size_t, advice: int) -> None:
            assert advise(start, length, advice) == 0
            asked.append((start.value, length.value))

    monkeypatch.setattr("ctypes.CDLL", Library)
    read_ahead(block, rows)
    monkeypatch.undo()
    for (start, length), row in zip(asked, rows.tolist(), strict=True):
        own = block[row]
        assert own.data_ptr() - mmap.PAGESIZE < start <= own.data_ptr()
        assert start % mmap.PAGESIZE == 0
        assert start + length == own.data_ptr() + own.nbytes
    until = time.monotonic() + 20
    while time.monotonic() < until and not all(in_memory(block[row]) for row in rows):
        time.sleep(0.01)
    assert all(in_memory(block[row]) for row in rows)
    assert np.array_equal(block[rows], content[rows])


def test_other_memory_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", None)  # nothing is asked of the system
    read_ahead(torch.zeros(4, 5000), torch.tensor([1, 2]))


seeds = st.integers(-(2**63), 2**63)


@settings(deadline=None)
@given(count=st.integers(0, 300), seed=seeds, epoch=st.integers(0, 1000))
def test_is_a_permutation_that_depends_on_seed_and_epoch_alone(count: int, seed: int, epoch: int) -> None:
    order = epoch_order(count, seed=seed, epoch=epoch)
    assert order.dtype == torch.int64
    assert order.sort().values.tolist() == list(range(count))
    torch.rand(3)  # the global generator must not matter
    assert torch.equal(order, epoch_order(count, seed=seed, epoch=epoch))


def test_neighbouring_seeds_and_epochs_differ() -> None:
    orders = {tuple(epoch_order(50, seed=seed, epoch=epoch).tolist()) for seed in range(12) for epoch in range(12)}
    assert len(orders) == 144


def test_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    epoch_order(10, seed=0, epoch=0)
    assert torch.equal(before, torch.get_rng_state())


def test_pixels_survive_and_labels_are_named():
    torch.manual_seed(0)
    pixels = torch.randint(0, 256, (3, 3, 9, 9), dtype=torch.uint8)
    described = describe_image(Images(pixels, torch.tensor([1, 0, 1]), ("cat", "dog"), name="x"), 2)
    shown = np.asarray(Image.open(io.BytesIO(base64.b64decode(described["png"]))))
    assert np.array_equal(shown, pixels[2].permute(1, 2, 0).numpy())
    assert (described["id"], described["label"]) == (2, "dog")
    bare = describe_image(Images(pixels, None, (), name="x"), 0)
    assert (bare["label"], bare["file"]) == (None, None)
    assert describe_image(Images(pixels, None, (), name="x", files=("a", "b\n", "c")), 1)["file"] == "b?"
