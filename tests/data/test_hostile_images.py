"""Image files that are out to do harm: left out with a reason, soon, and without much memory."""

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hostile import little_memory, saved, within
from PIL import Image

from hardpair.data.decode import UnusableError, read_square

Paint = Callable[..., Path]
OTHER = "not a JPEG, PNG, WebP, BMP or GIF image"


def reason(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with within(10), little_memory(100), pytest.raises(UnusableError) as caught:
        read_square(path, 16)
    assert str(caught.value).isprintable()
    return str(caught.value)


def giant_bmp() -> bytes:
    sizes = struct.pack("<IiiHHIIiiII", 40, 60_000, 60_000, 1, 24, 0, 0, 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 100, 0, 0, 54) + sizes + bytes(46)


def giant_webp() -> bytes:
    """An animation of one frame of 64 pixels on a canvas of 16,384."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return kind + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)

    def three(value: int) -> bytes:
        return value.to_bytes(3, "little")

    frame = bytes(6) + three(63) + three(63) + three(100) + b"\0" + saved("WEBP", lossless=True)[12:]
    head = chunk(b"VP8X", b"\2\0\0\0" + three(16_383) + three(16_383))
    body = b"WEBP" + head + chunk(b"ANIM", bytes(6)) + chunk(b"ANMF", frame)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def giant_gif() -> bytes:
    content = saved("GIF")
    return content[:6] + struct.pack("<HH", 65_535, 65_535) + content[10:]


def giant_frame_gif() -> bytes:
    """The screen is small, its first frame is not."""
    content = saved("GIF")
    start = content.index(b"\x2c\0\0\0\0")
    return content[: start + 5] + struct.pack("<HH", 65_535, 65_535) + content[start + 9 :]


def giant_jpeg() -> bytes:
    content = saved("JPEG")
    start = content.index(b"\xff\xc0")
    return content[: start + 5] + struct.pack(">HH", 65_500, 65_500) + content[start + 9 :]


@pytest.mark.parametrize("make", [giant_bmp, giant_webp, giant_gif, giant_frame_gif, giant_jpeg])
def test_giants_are_refused_by_their_header(tmp_path: Path, make: Callable[[], bytes]) -> None:
    assert reason(tmp_path / "a.jpg", make()) == "over 100 megapixels"


@pytest.mark.parametrize("kind", ["WEBP", "PNG", "GIF"])
def test_of_many_frames_only_the_first_is_decoded(tmp_path: Path, kind: str) -> None:
    frames = [Image.new("RGB", (64, 64), (0, k % 256, k // 256)) for k in range(300)]
    first = Image.new("RGB", (64, 64), "red")
    (tmp_path / "a.png").write_bytes(saved(kind, first, save_all=True, append_images=frames))
    with within(10), little_memory(50):
        assert (read_square(tmp_path / "a.png", 16).pixels[:, 4, 4] - np.array([254, 0, 0])).max() <= 1


def test_a_jpeg_of_a_million_scans_is_not_walked_through(tmp_path: Path) -> None:
    """81 megapixels in 12 MB: a walk over all its scans would take hours."""
    content = saved("JPEG", Image.effect_noise((64, 64), 90).convert("RGB"), progressive=True)
    start, last = content.index(b"\xff\xc2"), content.rindex(b"\xff\xda")
    large = content[: start + 5] + struct.pack(">HH", 9_000, 9_000) + content[start + 9 : -2]
    assert reason(tmp_path / "a.jpg", large + (content[last : last + 10] + b"\0\0") * 1_000_000) == "over 200 scans"


STRANGERS = {
    "SVG": b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>',
    "EPS": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 64 64\n(a) print (b) (w) file\n%%EOF\n",
    "PDF": b"%PDF-1.7\n1 0 obj\n",
    "TIFF": saved("TIFF"),
    "JPEG 2000": saved("JPEG2000"),
    "ICO": saved("ICO"),
    "TGA": saved("TGA"),
    "PPM": saved("PPM"),
    "zip": b"PK\3\4" + bytes(100),
    "HTML": b"<!doctype html><title>404</title>" * 10,
    "pickle": b"\x80\x04\x95" + bytes(100),
    "zeros": bytes(100_000),
}


@pytest.mark.parametrize("kind", STRANGERS)
@pytest.mark.parametrize("name", ["a.jpg", "a.png"])
def test_formats_that_are_not_ours(tmp_path: Path, kind: str, name: str) -> None:
    assert reason(tmp_path / name, STRANGERS[kind]) == OTHER


NOISE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 80, 3), dtype=np.uint8))
WHOLE = {
    "jpeg": saved("JPEG", NOISE),
    "progressive jpeg": saved("JPEG", NOISE, progressive=True),
    "png": saved("PNG", NOISE),
    "interlaced palette png": saved("PNG", NOISE.quantize(), bits=8),
    "webp": saved("WEBP", NOISE),
    "lossless webp": saved("WEBP", NOISE, lossless=True),
    "bmp": saved("BMP", NOISE),
    "gif": saved("GIF", NOISE),
}


@pytest.mark.parametrize("kind", WHOLE)
def test_cut_at_every_tenth(tmp_path: Path, kind: str) -> None:
    (tmp_path / "whole.jpg").write_bytes(WHOLE[kind])
    assert read_square(tmp_path / "whole.jpg", 16).pixels.shape == (3, 16, 16)
    for tenth in range(10):
        assert reason(tmp_path / "cut.jpg", WHOLE[kind][: len(WHOLE[kind]) * tenth // 10])


def test_no_bytes_and_too_many(tmp_path: Path) -> None:
    assert reason(tmp_path / "a.jpg", b"") == "empty"
    with (tmp_path / "b.webp").open("wb") as file:
        file.write(WHOLE["webp"][:4] + b"\xff\xff\xff\xfe" + WHOLE["webp"][8:])
        file.truncate(10_000_000_000)  # a hole: Pillow would read it into memory
    with within(10), little_memory(100), pytest.raises(UnusableError, match="over 256 MB"):
        read_square(tmp_path / "b.webp", 16)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_turned_pictures_of_every_format(tmp_path: Path, kind: str) -> None:
    """The picture is turned in place, which must not be undone by reading it again."""
    halves = Image.new("RGB", (64, 32), "red")
    halves.paste("blue", (0, 0, 64, 16))
    exif = Image.Exif()
    exif[0x0112] = 6
    (tmp_path / "a").write_bytes(saved(kind, halves.transpose(Image.Transpose.ROTATE_90), exif=exif))
    square = read_square(tmp_path / "a", 16).pixels.astype(int)
    assert (square[2, 2] - square[0, 2]).min() > 100
    assert (square[0, 13] - square[2, 13]).min() > 100
