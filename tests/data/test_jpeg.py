"""Plain JPEGs take the fast way, and come out as Pillow would have them; all others are left to Pillow."""

import io
import random
import struct
from pathlib import Path

import numpy as np
import pytest
from fuzzed_images import MUTATIONS
from hostile import little_memory, saved, within
from numpy.typing import NDArray
from PIL import Image

from hardpair.data import decode, jpeg
from hardpair.data.decode import UnusableError, read_square
from hardpair.data.jpeg import OddError, decode_square, read_header, reduced


def photo(width: int, height: int) -> Image.Image:
    """Smooth shapes and a little noise, different in each corner."""
    y, x = np.mgrid[0:height, 0:width] / max(width, height)
    planes = [255 * x, 255 * y, 127 + 100 * np.sin(9 * x + 5 * y)]
    noise = np.random.default_rng(0).normal(0, 4, (height, width, 3))
    return Image.fromarray((np.stack(planes, -1) + noise).clip(0, 255).astype(np.uint8))


def turned(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


def by_pillow(content: bytes, size: int) -> NDArray[np.uint8]:
    with Image.open(io.BytesIO(content)) as image:
        return decode._square(image, size)


def fast(content: bytes, size: int) -> NDArray[np.uint8]:
    return decode_square(content, read_header(content), size)


def with_segment(content: bytes, marker: int, body: bytes) -> bytes:
    """Another segment right at the beginning."""
    return content[:2] + struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body + content[2:]


PLAIN = {
    "small": saved("JPEG", photo(60, 44)),
    "large": saved("JPEG", photo(700, 530)),
    "all colours": saved("JPEG", photo(301, 203), subsampling=0, quality=95),
    "progressive": saved("JPEG", photo(301, 203), progressive=True),
    "grey": saved("JPEG", photo(120, 200).convert("L")),
    "RGB inside": saved("JPEG", photo(120, 200), keep_rgb=True),
    "with a profile and a comment": saved("JPEG", photo(120, 200), icc_profile=b"x" * 70_000, comment=b"a picture"),
    "of two pictures": saved("MPO", photo(64, 64), save_all=True, append_images=[photo(32, 32)]),
    **{f"turned {k}": saved("JPEG", photo(200, 123), exif=turned(k), subsampling=0) for k in range(10)},
}


@pytest.mark.parametrize("kind", PLAIN)
@pytest.mark.parametrize("size", [16, 32, 97])
def test_the_fast_way_gives_what_pillow_gives(kind: str, size: int) -> None:
    ours, pillows = fast(PLAIN[kind], size), by_pillow(PLAIN[kind], size)
    assert ours.shape == (3, size, size)
    assert ours.flags.c_contiguous
    difference = np.abs(ours.astype(int) - pillows.astype(int))
    assert difference.mean() < 0.5
    assert difference.max() <= 8  # two versions of libjpeg, two ways to round


@pytest.mark.parametrize("kind", PLAIN)
def test_a_plain_file_takes_the_fast_way(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(decode, "_by_pillow")
    (tmp_path / "a.png").write_bytes(PLAIN[kind])
    assert np.array_equal(read_square(tmp_path / "a.png", 32).pixels, fast(PLAIN[kind], 32))


def two_frames() -> bytes:
    content = PLAIN["small"]
    start = content.index(b"\xff\xc0")
    length = int.from_bytes(content[start + 2 : start + 4]) + 2
    return content[:start] + content[start : start + length] + content[start:]


XMP = b'http://ns.adobe.com/xap/1.0/\0<rdf:Description tiff:Orientation="6"/>'
ODD = {
    "CMYK": saved("JPEG", photo(60, 44).convert("CMYK")),
    "turned by XMP": with_segment(PLAIN["small"], 0xE1, XMP),
    "broken EXIF": with_segment(PLAIN["small"], 0xE1, b"Exif\0\0what is this"),
    "bytes between segments": PLAIN["small"][:2] + b"\xff" + PLAIN["small"][2:],
    "a marker that stands alone": PLAIN["small"][:2] + b"\xff\xd0" + PLAIN["small"][2:],
    "two frames": two_frames(),
    "a segment without end": PLAIN["small"][:2] + b"\xff\xe5\xff\xff" + PLAIN["small"][2:],
    "a segment shorter than its length": PLAIN["small"][:2] + b"\xff\xe5\0\1" + PLAIN["small"][2:],
    "nothing": b"",
    "no JPEG": b"\xff\xd8\xff" + bytes(100),
}


@pytest.mark.parametrize("kind", ODD)
def test_odd_files_are_not_for_us(kind: str) -> None:
    with pytest.raises(OddError):
        fast(ODD[kind], 16)


@pytest.mark.parametrize("kind", ["CMYK", "turned by XMP", "bytes between segments"])
def test_odd_but_whole_files_are_read_by_pillow(tmp_path: Path, kind: str) -> None:
    (tmp_path / "a.jpg").write_bytes(ODD[kind])
    assert np.array_equal(read_square(tmp_path / "a.jpg", 16).pixels, by_pillow(ODD[kind], 16))


def test_without_the_fast_decoder_pillow_reads_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jpeg, "simplejpeg", None)
    (tmp_path / "a.jpg").write_bytes(PLAIN["large"])
    assert np.array_equal(read_square(tmp_path / "a.jpg", 16).pixels, by_pillow(PLAIN["large"], 16))


def test_long_files_are_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.jpg").write_bytes(PLAIN["large"])
    monkeypatch.setattr(decode, "MOST_AT_ONCE", len(PLAIN["large"]) - 1)
    monkeypatch.delattr(decode, "_plain_jpeg")
    assert np.array_equal(read_square(tmp_path / "a.jpg", 16).pixels, by_pillow(PLAIN["large"], 16))


@pytest.mark.parametrize("kind", ["small", "large", "progressive", "grey", "turned 6"])
@pytest.mark.parametrize("size", [16, 200])
def test_a_cut_file_is_never_plain(kind: str, size: int) -> None:
    """Not even where only the last byte, or the last but two, is missing; Pillow may then see past it."""
    content = PLAIN[kind]
    for end in (*range(0, len(content) - 2, len(content) // 20), len(content) - 3, len(content) - 2, len(content) - 1):
        with pytest.raises(OddError):
            fast(content[:end], size)


def test_what_pillow_refuses_is_refused(tmp_path: Path) -> None:
    """Random damage behind the metadata, of which we read less than Pillow and so may see past more."""
    draw, path, refused = random.Random(0), tmp_path / "a.jpg", 0
    for _ in range(400):
        content = bytearray(PLAIN[draw.choice(["small", "progressive", "grey", "all colours"])])
        head = content.index(b"\xff\xdb")
        rest = content[head:]
        draw.choice(MUTATIONS)(rest, draw)
        path.write_bytes(content[:head] + rest)
        try:
            by_pillow(path.read_bytes(), 16)
        except Exception:
            refused += 1
            with pytest.raises(UnusableError):
                read_square(path, 16)
    assert refused > 50


@pytest.mark.parametrize("size", [8, 32, 96, 224])
def test_reduced_sizes_are_those_of_pillow(size: int) -> None:
    for width, height in [(8, 8), (64, 63), (128, 500), (127, 255), (448, 449), (1000, 1793), (8, 4000)]:
        with Image.open(io.BytesIO(saved("JPEG", Image.new("L", (width, height))))) as image:
            image.draft(None, (2 * size, 2 * size))
            assert reduced(width, height, size) == image.size


def test_more_scans_than_the_header_promises_are_not_walked_through(tmp_path: Path) -> None:
    """That is why the scans of such a file need not be counted."""
    content = PLAIN["large"]
    scan = content[content.rindex(b"\xff\xda") :][:14]
    (tmp_path / "a.jpg").write_bytes(content[:-2] + (scan + b"\0\0") * 500_000)
    assert read_header(content).one_scan
    with pytest.raises(OddError), within(10):
        fast((tmp_path / "a.jpg").read_bytes(), 16)
    with within(10), little_memory(100), pytest.raises(UnusableError, match="over 200 scans"):
        read_square(tmp_path / "a.jpg", 16)


def test_scans_are_counted_where_there_may_be_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not read_header(PLAIN["progressive"]).one_scan
    (tmp_path / "a.jpg").write_bytes(PLAIN["progressive"])
    monkeypatch.setattr(decode, "MOST_SCANS", 3)
    with pytest.raises(UnusableError, match="over 3 scans"):
        read_square(tmp_path / "a.jpg", 16)
