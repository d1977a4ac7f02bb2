"""Image files that are out to do harm: left out with a reason, soon, and without much memory."""

import io
import os
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hostile import little_memory, within
from PIL import Image

from hardpair.data.decode import UnusableError, decode_file
from hardpair.data.folder import read_folder
from hardpair.data.room import Room
from hardpair.errors import UserError

Paint = Callable[..., Path]
OTHER = "not a JPEG, PNG, WebP, BMP or GIF image"


def saved(kind: str, image: Image.Image | None = None, **options: object) -> bytes:
    out = io.BytesIO()
    (image or Image.new("RGB", (64, 64), (200, 10, 10))).save(out, kind, **options)
    return out.getvalue()


def reason(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with within(10), little_memory(100), pytest.raises(UnusableError) as caught:
        decode_file(path, 16)
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
        assert (decode_file(tmp_path / "a.png", 16)[:, 4, 4] - np.array([254, 0, 0])).max() <= 1


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
    assert decode_file(tmp_path / "whole.jpg", 16).shape == (3, 16, 16)
    for tenth in range(10):
        assert reason(tmp_path / "cut.jpg", WHOLE[kind][: len(WHOLE[kind]) * tenth // 10])


def test_no_bytes_and_too_many(tmp_path: Path) -> None:
    assert reason(tmp_path / "a.jpg", b"") == "empty"
    with (tmp_path / "b.webp").open("wb") as file:
        file.write(WHOLE["webp"][:4] + b"\xff\xff\xff\xfe" + WHOLE["webp"][8:])
        file.truncate(10_000_000_000)  # a hole: Pillow would read it into memory
    with within(10), little_memory(100), pytest.raises(UnusableError, match="over 256 MB"):
        decode_file(tmp_path / "b.webp", 16)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_folder_of_pipes_devices_and_loops(root: Path, paint: Paint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardpair.data.folder.MOST_SKIPPED", 1.0)
    paint("fine.png")
    os.mkfifo(root / "pipe.jpg")
    for name, target in {
        "device.jpg": "/dev/zero",
        "kernel.jpg": "/proc/self/status",
        "loop.jpg": "loop.jpg",
        "to-pipe.jpg": "pipe.jpg",
        "nowhere.jpg": "nowhere",
        "round/round": "..",
        "folder.jpg": ".",
    }.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).symlink_to(target)
    (root / "round/two").symlink_to("two")
    with within(10):
        images = read_folder(root, "train", 16)
    assert images.files == ("fine.png",)
    names = sorted(line.split(":")[0] for line in images.skipped)
    assert names == ["device.jpg", "kernel.jpg", "loop.jpg", "nowhere.jpg", "pipe.jpg", "to-pipe.jpg"]


ODD_NAMES = [
    b"new\nline.jpg",
    b"\x1b[31mred.jpg",
    b"\xff\xfe\x80.jpg",
    b"-rf.jpg",
    b"a;touch x.jpg",
    b"\xe2\x80\xae.jpg",
]


def test_odd_names_are_read_and_printed_safely(root: Path, paint: Paint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardpair.data.folder.MOST_SKIPPED", 1.0)
    monkeypatch.chdir(root)
    for name in ODD_NAMES:
        Path(os.fsdecode(name)).write_bytes(saved("PNG"))
        Path(os.fsdecode(b"bad" + name)).write_bytes(b"rubbish")
    images = read_folder(root, "train", 16)
    assert sorted(images.files) == sorted(map(os.fsdecode, ODD_NAMES))
    assert len(images.skipped) == len(ODD_NAMES)
    assert all(line.isprintable() and line.startswith("bad") for line in images.skipped)
    assert len(list(root.iterdir())) == 2 * len(ODD_NAMES), "no name was taken for a command"


@pytest.mark.parametrize("name", [b"\xff\xfe", b"a\nb", b"\x1b]0;title\x07"])
def test_odd_names_of_folders_are_printed_safely(root: Path, paint: Paint, name: bytes) -> None:
    odd = root / os.fsdecode(name)
    odd.mkdir()
    for split in ("train", "test"):
        with pytest.raises(UserError) as caught:
            read_folder(odd, split, 16)
        assert str(caught.value).isprintable()
    (odd / "a.png").write_bytes(saved("PNG"))
    assert read_folder(odd, "train", 16).name.isprintable()


@contextmanager
def as_somebody() -> Iterator[None]:
    """Root may read everything, so for a moment the tests are not root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no users here")
def test_files_and_folders_that_may_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardpair.data.folder.MOST_SKIPPED", 1.0)
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders let nobody else in
        root = Path(name)
        root.chmod(0o755)
        (root / "a.png").write_bytes(saved("PNG"))
        (root / "b.png").write_bytes(saved("PNG"))
        (root / "b.png").chmod(0)
        with as_somebody():
            assert read_folder(root, "train", 16).skipped == ("b.png: no permission to read it",)
        (root / "closed").mkdir(0)
        with as_somebody(), pytest.raises(UserError, match=r"closed: cannot be read \(Permission denied\)"):
            read_folder(root, "train", 16)


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


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_turned_pictures_of_every_format(tmp_path: Path, kind: str) -> None:
    """The picture is turned in place, which must not be undone by reading it again."""
    halves = Image.new("RGB", (64, 32), "red")
    halves.paste("blue", (0, 0, 64, 16))
    exif = Image.Exif()
    exif[0x0112] = 6
    (tmp_path / "a").write_bytes(saved(kind, halves.transpose(Image.Transpose.ROTATE_90), exif=exif))
    square = decode_file(tmp_path / "a", 16).astype(int)
    assert (square[2, 2] - square[0, 2]).min() > 100
    assert (square[0, 13] - square[2, 13]).min() > 100
