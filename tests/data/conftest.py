"""Real files in a temporary folder, and a cache that is thrown away."""

import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

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
