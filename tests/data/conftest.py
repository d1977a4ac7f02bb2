"""Real files in a temporary folder, and a cache that is thrown away."""

import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from packing import PART, TESTED, TRAINED
from PIL import Image

from hardpair.data import decode

Paint = Callable[..., Path]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("HARDPAIR_CACHE", str(folder))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    folder.mkdir()
    return folder


@pytest.fixture
def paint(root: Path) -> Paint:
    """Write a picture of one colour below the root."""

    def write(name: str, colour: object = (200, 100, 50), size: tuple[int, int] = (12, 10), mode: str = "RGB") -> Path:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new(mode, size, colour).save(path)
        return path

    return write


@pytest.fixture
def claim_size() -> Callable[[Path, int, int], None]:
    """Write a PNG whose header claims a size that its data does not have."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    def write(path: Path, width: int, height: int) -> None:
        header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
        body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 64)) + chunk(b"IEND", b"")
        path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)

    return write


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Where to pack to."""
    return tmp_path / "packed"


@pytest.fixture
def pictures(root: Path, paint: Paint, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Thirty to train on, one of them broken, and ten to test with; four are decoded, and packed, at a time."""
    monkeypatch.setattr(decode, "AT_ONCE", PART)
    for k in range(TRAINED):
        paint(f"train/{'ab'[k % 2]}/{k:02}.png", (8 * k, k, 255 - k))
    for k in range(TESTED):
        paint(f"test/a/{k}.png", (k, 20 * k, 100))
    (root / "train/a/02.png").write_bytes(b"rubbish")
    return root


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all files that are decoded from now on."""
    read, names = decode.read_square, []

    def spy(path: Path, size: int) -> object:
        names.append(path.name)
        return read(path, size)

    monkeypatch.setattr(decode, "read_square", spy)
    return names


@pytest.fixture
def no_decoding(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def forbid() -> None:
        def fail(*_: object) -> None:
            raise AssertionError("decoded again")

        monkeypatch.setattr("hardpair.data.decode.read_square", fail)

    return forbid
