"""Reading a folder of pictures: what is left out, what is said about it, and what becomes of the labels."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from hardpair.data import open_images
from hardpair.data.cache import read_folder
from hardpair.errors import UserError

Paint = Callable[..., Path]


def test_labels_follow_their_images_past_a_broken_file(root: Path, paint: Paint) -> None:
    for k in range(15):
        paint(f"train/black/{k:02}.png", (0, 0, 0))
        paint(f"train/white/{k:02}.png", (255, 255, 255))
    (root / "train/black/05.png").write_bytes(b"rubbish")
    for _ in ("decoded", "from the cache"):
        images = read_folder(root, "train", 8)
        assert images.pixels.shape == (29, 3, 8, 8)
        assert images.labels is not None
        assert images.labels.dtype == torch.int64
        assert torch.equal(images.pixels[:, 0, 0, 0] == 255, images.labels == 1)
        assert images.skipped == ("black/05.png: not a JPEG, PNG, WebP, BMP or GIF image",)
        assert (images.name, images.classes) == ("pictures/train", ("black", "white"))


def test_gaps_of_broken_files_are_closed_in_every_batch(
    root: Path, paint: Paint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hardpair.data.decode.AT_ONCE", 4)
    broken = {0, 2, 3, 9, 12, 13, 14, 15, 18}
    for k in range(19):
        path = paint(f"{k:02}.png", (k, 0, 0))
        if k in broken:
            path.write_bytes(b"")
    images = read_folder(root, "train", 8, skip_broken=1.0)
    whole = [k for k in range(19) if k not in broken]
    assert images.pixels[:, 0, 4, 4].tolist() == whole
    assert images.files == tuple(f"{k:02}.png" for k in whole)
    assert images.skipped == tuple(f"{k:02}.png: empty" for k in sorted(broken))


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


def test_skip_broken(
    root: Path, paint: Paint, caplog: pytest.LogCaptureFixture, no_decoding: Callable[[], None]
) -> None:
    for k in range(10):
        paint(f"{k}.png", (k, 0, 0))
    for k in (2, 5, 6, 8):
        (root / f"{k}.png").write_bytes(b"")
    with pytest.raises(UserError, match=r"--skip-broken 0\.4.*quarantine\.txt"):
        open_images(str(root), "train", size=8, root=root, skip_broken=0.3)
    no_decoding()  # what the refused call decoded is kept
    with caplog.at_level(logging.INFO, "hardpair"):
        images = open_images(str(root), "train", size=8, root=root, skip_broken=0.4)
    assert images.pixels[:, 0, 0, 0].tolist() == [0, 1, 3, 4, 7, 9]
    [line] = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
    assert "4 of 10 files" in line
    listed = next(Path(word) for word in line.split() if word.endswith("quarantine.txt"))
    assert listed.read_text().splitlines() == [f"train: {k}.png: empty" for k in (2, 5, 6, 8)]
    with pytest.raises(UserError, match="--skip-broken"):  # the cache does not make the choice for the next call
        open_images(str(root), "train", size=8, root=root)
    for k in (2, 5, 6, 8):
        (root / f"{k}.png").unlink()


def test_the_hash_is_that_of_the_images_that_are_used(root: Path, paint: Paint) -> None:
    for k in range(10):
        paint(f"{k}.png", (k, 0, 0))
    (root / "3.png").write_bytes(b"")
    skipped = read_folder(root, "train", 8, skip_broken=0.5).digest()
    (root / "3.png").unlink()
    assert read_folder(root, "train", 8).digest() == skipped


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan")])
def test_shares_that_cannot_be(root: Path, share: float) -> None:
    with pytest.raises(UserError, match="skip_broken"):
        open_images(str(root), "train", size=8, root=root, skip_broken=share)


def test_message_stays_short_and_on_one_line(root: Path, cache: Path) -> None:
    for k in range(30):
        (root / f"bad\n\x1b[31m{k:02}.jpg").write_bytes(b"")
    for share in (0.0, 1.0):  # no share makes a data set out of nothing
        with pytest.raises(UserError, match="30 of 30") as caught:
            read_folder(root, "train", 8, skip_broken=share)
        assert str(caught.value).isprintable()
        assert str(caught.value).count(".jpg") == 3
        assert "--skip-broken" not in str(caught.value)
    [listed] = cache.rglob("quarantine.txt")
    assert len(listed.read_text().splitlines()) == 30


def test_a_division_is_said_once(root: Path, paint: Paint, caplog: pytest.LogCaptureFixture) -> None:
    for k in range(20):
        paint(f"{'ab'[k % 2]}/{k}.png", (k, 0, 0))
    with caplog.at_level(logging.INFO, "hardpair"):
        for split in ("train", "test", "train"):
            read_folder(root, split, 8)
    assert [record.getMessage() for record in caplog.records] == ["4 of 20 images held out for testing"]


def test_enlarged_images_are_counted(root: Path, paint: Paint, caplog: pytest.LogCaptureFixture) -> None:
    for k in range(6):
        paint(f"{k}.{('png', 'jpg')[k % 2]}", size=(40, 16) if k < 4 else (20, 30))
    with caplog.at_level(logging.INFO, "hardpair"):
        read_folder(root, "train", 20)
    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith("4 of 6 images are smaller than 20 px")


def test_no_folder_that_is_not_there_is_named(
    root: Path, paint: Paint, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hardpair.data.progress.QUIET_SECONDS", 0)
    paint("a.png")
    read_folder(root, "train", 8)
    said = capfd.readouterr().err
    assert "images of pictures" in said
    assert "/" not in said
