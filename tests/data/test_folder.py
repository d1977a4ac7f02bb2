import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from hardpair.data.folder import decode_batches, read_folder
from hardpair.data.layout import list_split
from hardpair.errors import UserError

Paint = Callable[..., Path]


def test_labels_follow_their_images_past_a_broken_file(root: Path, paint: Paint) -> None:
    for k in range(15):
        paint(f"train/black/{k:02}.png", (0, 0, 0))
        paint(f"train/white/{k:02}.png", (255, 255, 255))
    (root / "train/black/05.png").write_bytes(b"rubbish")
    images = read_folder(root, "train", 8)
    assert images.pixels.shape == (29, 3, 8, 8)
    assert images.labels is not None
    assert images.labels.dtype == torch.int64
    assert torch.equal(images.pixels[:, 0, 0, 0] == 255, images.labels == 1)
    assert images.skipped == ("black/05.png: not a JPEG, PNG, WebP, BMP or GIF image",)
    assert (images.name, images.classes) == ("pictures/train", ("black", "white"))


def test_many_batches_of_files_keep_their_order(root: Path, paint: Paint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardpair.data.folder.AT_ONCE", 4)
    for k in reversed(range(19)):
        paint(f"{k:02}.png", (k, 0, 0))
    images = read_folder(root, "train", 8)
    assert images.pixels[:, 0, 4, 4].tolist() == list(range(19))
    assert images.labels is None


def test_gaps_of_broken_files_are_closed_in_every_batch(
    root: Path, paint: Paint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hardpair.data.folder.AT_ONCE", 4)
    monkeypatch.setattr("hardpair.data.folder.MOST_SKIPPED", 1.0)
    broken = {0, 2, 3, 9, 12, 13, 14, 15, 18}
    for k in range(19):
        path = paint(f"{k:02}.png", (k, 0, 0))
        if k in broken:
            path.write_bytes(b"")
    images = read_folder(root, "train", 8)
    whole = [k for k in range(19) if k not in broken]
    assert images.pixels[:, 0, 4, 4].tolist() == whole
    assert images.files == tuple(f"{k:02}.png" for k in whole)
    assert images.skipped == tuple(f"{k:02}.png: empty" for k in sorted(broken))


def test_each_file_is_decoded_once_whatever_the_threads(
    root: Path, paint: Paint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hardpair.data.folder.THREADS", 8)
    for k in range(60):
        paint(f"{k:02}.png")
    seen: list[int] = []
    for places in decode_batches(list_split(root, "train"), 8, "", lambda place, _: seen.append(place) or place):
        assert places == list(range(60))
    assert sorted(seen) == list(range(60))


def test_no_thread_begins_another_file_after_a_failure(
    root: Path, paint: Paint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hardpair.data.folder.THREADS", 2)
    for k in range(60):
        paint(f"{k:02}.png")
    seen: list[int] = []

    def finish(place: int, _: object) -> None:
        seen.append(place)
        time.sleep(0.01)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(decode_batches(list_split(root, "train"), 8, "", finish))
    assert len(seen) <= 2


@pytest.mark.parametrize(("broken", "fine"), [(1, True), (2, False)])
def test_one_in_twenty_may_be_broken(root: Path, paint: Paint, broken: int, fine: bool) -> None:
    for k in range(20):
        path = paint(f"{k:02}.png")
        if k < broken:
            path.write_bytes(b"")
    if fine:
        assert len(read_folder(root, "train", 8)) == 19
        return
    with pytest.raises(UserError, match=r"2 of 20 files cannot be used.*00\.png.*01\.png") as caught:
        read_folder(root, "train", 8)
    assert "\n" not in str(caught.value)


def test_message_stays_short_and_on_one_line(root: Path, paint: Paint, cache: Path) -> None:
    for k in range(30):
        (root / f"bad\n\x1b[31m{k:02}.jpg").write_bytes(b"")
    with pytest.raises(UserError, match="30 of 30") as caught:
        read_folder(root, "train", 8)
    assert str(caught.value).isprintable()
    assert str(caught.value).count(".jpg") == 3
    assert list(cache.iterdir()) == [], "a refused folder leaves nothing in the cache"


def test_no_warning_of_pillow_escapes(
    root: Path, paint: Paint, claim_size: Callable[[Path, int, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hardpair.data.folder.MOST_SKIPPED", 1.0)
    claim_size(root / "a.png", 9_500, 10_000)  # Pillow warns, we allow; the data is broken
    claim_size(root / "b.png", 12_000, 10_000)  # Pillow warns, we refuse
    claim_size(root / "c.png", 50_000, 50_000)  # Pillow refuses
    paint("d.png")
    images = read_folder(root, "train", 8)
    assert len(images) == 1
    first, *others = images.skipped
    assert first.startswith("a.png: broken")
    assert "exceeds" not in first
    assert others == ["b.png: over 100 megapixels", "c.png: over 100 megapixels"]
