"""Image files to squares of pixels: formats, sizes, reasons why not; many files by threads."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hostile import within
from PIL import Image

from hardpair.data.decode import Room, Square, UnusableError, decode_all, decode_batches, files_at_once, read_square
from hardpair.data.layout import list_split


def stripes(width: int, height: int) -> Image.Image:
    """Red, green and blue thirds from left to right."""
    pixels = np.zeros((height, width, 3), np.uint8)
    for k in range(3):
        pixels[:, k * width // 3 : (k + 1) * width // 3, k] = 255
    return Image.fromarray(pixels)


def waves(width: int, height: int) -> Image.Image:
    """As many waves in a small picture as in a large one."""
    y, x = np.mgrid[0:height, 0:width] * (64 / width)
    planes = [127 + 120 * np.sin(x / 3), 127 + 120 * np.cos(y / 4), 127 + 120 * np.sin((x + y) / 5)]
    return Image.fromarray(np.stack(planes, -1).astype(np.uint8))


def test_square_of_the_right_size_is_untouched(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    assert np.array_equal(read_square(tmp_path / "a.png", 16).pixels, pixels.transpose(2, 0, 1))


@pytest.mark.parametrize("size", [8, 16, 40])
def test_keeps_the_centre(tmp_path: Path, size: int) -> None:
    stripes(48, 16).save(tmp_path / "wide.png")
    stripes(48, 16).transpose(Image.Transpose.ROTATE_90).save(tmp_path / "tall.png")
    for name in ("wide.png", "tall.png"):
        square = read_square(tmp_path / name, size).pixels
        assert square.shape == (3, size, size)
        assert square.dtype == np.uint8
        inner = square[:, size // 8 : -size // 8, size // 8 : -size // 8]  # bicubic sees a little of the neighbours
        assert (inner[1] == 255).all()
        assert (inner[[0, 2]] == 0).all()


def test_a_thread_of_a_picture_needs_no_giant(tmp_path: Path) -> None:
    Image.new("RGB", (8, 60_000), (1, 2, 3)).save(tmp_path / "thread.png")
    assert read_square(tmp_path / "thread.png", 512).pixels.shape == (3, 512, 512)


def test_downsizing_is_antialiased(tmp_path: Path) -> None:
    board = (np.indices((64, 64)).sum(0) % 2 * 255).astype(np.uint8)
    Image.fromarray(board).save(tmp_path / "board.png")
    assert np.abs(read_square(tmp_path / "board.png", 16).pixels[:, 2:-2, 2:-2].astype(int) - 127).max() <= 3


def test_exif_orientation_is_applied(tmp_path: Path) -> None:
    upright = stripes(48, 48)
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: show it a quarter clockwise
    upright.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "turned.png", exif=exif)
    upright.save(tmp_path / "upright.png")
    turned, expected = read_square(tmp_path / "turned.png", 48), read_square(tmp_path / "upright.png", 48)
    assert np.array_equal(turned.pixels, expected.pixels)


@pytest.mark.parametrize("scale", [1, 2, 4, 9])
def test_jpeg_shortcut_changes_little(tmp_path: Path, scale: int) -> None:
    image = waves(64 * scale, 80 * scale)
    image.save(tmp_path / "a.jpg", quality=95, subsampling=0)
    image.save(tmp_path / "a.png")
    short, full = read_square(tmp_path / "a.jpg", 32).pixels, read_square(tmp_path / "a.png", 32).pixels
    assert np.abs(short.astype(int) - full.astype(int)).mean() < 2


def test_16_bit_grey_is_scaled_and_not_clipped(tmp_path: Path) -> None:
    levels = np.repeat(np.arange(256, dtype=np.uint16)[:, None] * 257, 256, axis=1)
    Image.fromarray(levels).save(tmp_path / "deep.png")
    with Image.open(tmp_path / "deep.png") as image:
        assert image.mode.startswith("I")
    decoded = read_square(tmp_path / "deep.png", 256).pixels
    assert np.array_equal(decoded, np.broadcast_to(np.arange(256)[:, None], (3, 256, 256)))


@pytest.mark.parametrize(
    ("mode", "colour", "name", "expected"),
    [
        ("L", 90, "a.png", (90, 90, 90)),
        ("L", 90, "a.jpg", (90, 90, 90)),
        ("LA", (90, 255), "a.png", (90, 90, 90)),
        ("LA", (90, 0), "a.png", (255, 255, 255)),
        ("RGBA", (10, 20, 30, 255), "a.png", (10, 20, 30)),
        ("RGBA", (10, 20, 30, 0), "a.png", (255, 255, 255)),
        ("RGBA", (0, 0, 0, 51), "a.webp", (204, 204, 204)),
        ("1", 1, "a.png", (255, 255, 255)),
        ("1", 0, "a.bmp", (0, 0, 0)),
        ("CMYK", (0, 255, 255, 0), "a.jpg", (255, 0, 0)),
        ("RGB", (10, 20, 30), "a.bmp", (10, 20, 30)),
    ],
)
def test_every_mode_becomes_rgb(
    tmp_path: Path, mode: str, colour: int | tuple[int, ...], name: str, expected: tuple[int, ...]
) -> None:
    Image.new(mode, (16, 16), colour).save(tmp_path / name)
    decoded = read_square(tmp_path / name, 8).pixels.reshape(3, -1).astype(int)
    assert np.abs(decoded - np.array(expected)[:, None]).max() <= 4


@pytest.mark.parametrize("transparency", [None, 1])
def test_palette_becomes_rgb(tmp_path: Path, transparency: int | None) -> None:
    image = Image.new("P", (16, 16), 1)
    image.putpalette([0, 0, 0, 250, 120, 60])
    image.save(tmp_path / "a.png", **({} if transparency is None else {"transparency": transparency}))
    expected = (250, 120, 60) if transparency is None else (255, 255, 255)
    assert read_square(tmp_path / "a.png", 16).pixels[:, 5, 5].tolist() == list(expected)


def test_phones_write_jpegs_of_several_pictures(tmp_path: Path) -> None:
    first = Image.new("RGB", (16, 16), (200, 10, 10))
    first.save(tmp_path / "a.jpg", "MPO", save_all=True, append_images=[Image.new("RGB", (16, 16))])
    assert read_square(tmp_path / "a.jpg", 8).pixels[0].min() > 150


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.webp", "a.bmp"])
def test_truncated_files_are_unusable(tmp_path: Path, name: str) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / name)
    read_square(tmp_path / name, 16)
    truncate(tmp_path / name)
    with pytest.raises(UnusableError, match=r"broken|not a JPEG"):
        read_square(tmp_path / name, 16)


@pytest.mark.parametrize("content", [b"", b"not an image", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"])
def test_rubbish_is_unusable(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.jpg").write_bytes(content)
    with pytest.raises(UnusableError) as caught:
        read_square(tmp_path / "a.jpg", 16)
    assert str(tmp_path) not in str(caught.value)


def test_a_gif_is_its_first_frame(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (32, 32), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "a.jpg", "GIF", save_all=True, append_images=frames[1:])
    assert (read_square(tmp_path / "a.jpg", 16).pixels == np.array([255, 0, 0])[:, None, None]).all()


@pytest.mark.parametrize("kind", ["TIFF", "PPM", "ICO"])
def test_other_formats_under_a_false_name_are_unusable(tmp_path: Path, kind: str) -> None:
    Image.new("RGB", (32, 32)).save(tmp_path / "a.png", kind)
    with pytest.raises(UnusableError, match="not a JPEG, PNG, WebP, BMP or GIF image"):
        read_square(tmp_path / "a.png", 16)


@pytest.mark.parametrize("size", [(7, 30), (30, 7), (1, 1)])
def test_tiny_images_are_unusable(tmp_path: Path, size: tuple[int, int]) -> None:
    Image.new("RGB", size).save(tmp_path / "a.png")
    with pytest.raises(UnusableError, match="smaller than 8"):
        read_square(tmp_path / "a.png", 16)


def test_eight_pixels_are_enough(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    assert read_square(tmp_path / "a.png", 16).pixels.shape == (3, 16, 16)


def test_far_too_large_is_refused_by_its_header(tmp_path: Path, claim_size: Callable[[Path, int, int], None]) -> None:
    claim_size(tmp_path / "a.png", 20_000, 20_000)
    with pytest.raises(UnusableError, match="over 100 megapixels"):
        read_square(tmp_path / "a.png", 16)


def test_own_limit_is_below_the_one_of_pillow(
    tmp_path: Path, claim_size: Callable[[Path, int, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hardpair.data.decode.MOST_PIXELS", 1_000_000)
    claim_size(tmp_path / "a.png", 1001, 1000)
    with pytest.raises(UnusableError, match="over 1 megapixels"):
        read_square(tmp_path / "a.png", 16)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jpg")
    (tmp_path / "b.jpg").symlink_to("nowhere")
    for name in ("a.jpg", "b.jpg"):
        with pytest.raises(UnusableError, match="not a readable file"):
            read_square(tmp_path / name, 16)


def test_no_more_is_decoded_at_once_than_there_is_room_for() -> None:
    room, most, lock, now = Room(10), [0], threading.Lock(), [0]
    together = threading.Event()

    def work(pixels: int) -> None:
        with room.take(pixels):
            with lock:
                now[0] += min(pixels, 10)
                most[0] = max(most[0], now[0])
            together.wait(0.01)
            with lock:
                now[0] -= min(pixels, 10)

    threads = [threading.Thread(target=work, args=(pixels,)) for pixels in (3, 7, 4, 10, 1, 2, 99, 5, 5, 6)]
    with within(10):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert 6 < most[0] <= 10
    assert room.free == 10


def test_room_is_given_back_after_a_failure() -> None:
    room = Room(10)
    with pytest.raises(ValueError, match="broken"), room.take(7):
        raise ValueError("broken")
    assert room.free == 10


def test_each_file_is_decoded_once_whatever_the_threads(
    root: Path, paint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, decoded: list[str]
) -> None:
    monkeypatch.setattr("hardpair.data.decode.THREADS", 8)
    for k in range(60):
        paint(f"{k:02}.png", (k, 0, 0))
    [batch] = decode_batches(list_split(root, "train"), 8, "")
    assert [result.pixels[0, 4, 4] for result in batch if isinstance(result, Square)] == list(range(60))
    assert sorted(decoded) == [f"{k:02}.png" for k in range(60)]


def test_many_batches_of_files_keep_their_order(
    root: Path, paint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hardpair.data.decode.AT_ONCE", 4)
    for k in reversed(range(19)):
        paint(f"{k:02}.png", (k, 0, 0))
    (root / "03.png").write_bytes(b"")
    pixels, rows, skipped = decode_all(list_split(root, "train"), 8, "")
    assert pixels[:, 0, 4, 4].tolist() == rows == [k for k in range(19) if k != 3]
    assert skipped == ["03.png: empty"]


def test_large_squares_are_decoded_few_at_a_time() -> None:
    assert [files_at_once(size) for size in (8, 224, 1024, 16_384)] == [256, 256, 85, 1]


def test_no_thread_begins_another_file_after_a_failure(
    root: Path, paint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hardpair.data.decode.THREADS", 2)
    for k in range(60):
        paint(f"{k:02}.png")
    seen: list[Path] = []

    def stop(path: Path, _: int) -> None:
        seen.append(path)
        time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr("hardpair.data.decode.read_square", stop)
    with pytest.raises(KeyboardInterrupt):
        list(decode_batches(list_split(root, "train"), 8, ""))
    assert len(seen) <= 2


def test_no_warning_of_pillow_escapes(
    root: Path, paint: Callable[..., Path], claim_size: Callable[[Path, int, int], None]
) -> None:
    claim_size(root / "a.png", 9_500, 10_000)  # Pillow warns, we allow; the data is broken
    claim_size(root / "b.png", 12_000, 10_000)  # Pillow warns, we refuse
    claim_size(root / "c.png", 50_000, 50_000)  # Pillow refuses
    paint("d.png")
    _, rows, (first, *others) = decode_all(list_split(root, "train"), 8, "")
    assert rows == [3]
    assert first.startswith("a.png: broken")
    assert "exceeds" not in first
    assert others == ["b.png: over 100 megapixels", "c.png: over 100 megapixels"]
