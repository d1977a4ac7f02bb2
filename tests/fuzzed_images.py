"""Pictures with random damage, and a reader of them that is watched: run as a script in a process of its own."""

import io
import json
import os
import random
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hostile import peak_memory
from PIL import Image

Mutation = Callable[[bytearray, random.Random], None]


def originals() -> list[bytes]:
    """Small valid pictures of every format, with metadata, palettes, transparency and frames."""
    draw = np.random.default_rng(0)
    photo = Image.fromarray(draw.integers(0, 256, (40, 48, 3), dtype=np.uint8)).resize((60, 50))
    clear = photo.convert("RGBA")
    clear.putalpha(128)
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "a picture"
    grey = Image.fromarray(draw.integers(0, 65_536, (40, 48), dtype=np.uint16))
    kinds: list[tuple[Image.Image, str, dict[str, Any]]] = [
        (photo, "JPEG", {"exif": exif}),
        (photo, "JPEG", {"progressive": True}),
        (photo.convert("CMYK"), "JPEG", {}),
        (photo, "PNG", {"exif": exif}),
        (photo.quantize(), "PNG", {"transparency": 3}),
        (grey, "PNG", {}),
        (clear, "PNG", {"save_all": True, "append_images": [clear] * 2}),
        (photo, "WEBP", {"exif": exif}),
        (clear, "WEBP", {"lossless": True}),
        (photo, "WEBP", {"save_all": True, "append_images": [photo] * 2}),
        (photo, "BMP", {}),
        (photo.quantize(), "BMP", {}),
        (photo.quantize(), "GIF", {"save_all": True, "append_images": [photo.quantize()] * 2}),
    ]
    return [_saved(image, kind, options) for image, kind, options in kinds]


def _saved(image: Image.Image, kind: str, options: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def _flip(content: bytearray, draw: random.Random) -> None:
    for _ in range(draw.choice((1, 3, 20))):
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)


def _insert(content: bytearray, draw: random.Random) -> None:
    place = draw.randrange(len(content))
    content[place:place] = draw.randbytes(draw.choice((1, 4, 100)))


def _delete(content: bytearray, draw: random.Random) -> None:
    place = draw.randrange(len(content))
    del content[place : place + draw.choice((1, 4, 100))]


def _truncate(content: bytearray, draw: random.Random) -> None:
    del content[draw.randrange(len(content)) :]


def _number(content: bytearray, draw: random.Random) -> None:
    """Sizes and lengths stand near the beginning: put a strange one there."""
    value = struct.pack(draw.choice("<>") + "I", draw.choice((0, 1, 0x7FFF, 0xFFFF, 0x270F, 0x7FFFFFFF, 0xFFFFFFFF)))
    place = draw.randrange(min(len(content), 80))
    content[place : place + 4] = value


def _head(content: bytearray, draw: random.Random) -> None:
    for _ in range(draw.choice((1, 3))):
        content[draw.randrange(min(len(content), 64))] = draw.randrange(256)


MUTATIONS: tuple[Mutation, ...] = (_flip, _insert, _delete, _truncate, _number, _head)


def write_folder(folder: Path, *, count: int, seed: int) -> None:
    """So many damaged pictures, and one that is whole."""
    folder.mkdir(parents=True)
    kinds, draw = originals(), random.Random(seed)
    for place in range(count):
        content = bytearray(draw.choice(kinds))
        for _ in range(draw.choice((1, 1, 2))):
            if content:
                draw.choice(MUTATIONS)(content, draw)
        (folder / f"{place:05}.jpg").write_bytes(content)
    (folder / "whole.jpg").write_bytes(kinds[0])


def read_watched(folder: Path, cache: Path, *, seconds: int) -> dict[str, Any]:
    """Read the folder in another process; one that crashes, hangs or warns fails."""
    words = [sys.executable, "-W", "error", __file__, str(folder), str(cache)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    """Read a folder and say what came of it."""
    folder, os.environ["HARDPAIR_CACHE"] = Path(sys.argv[1]), sys.argv[2]
    from hardpair.data import decode
    from hardpair.data.cache import read_folder

    decode.THREADS = 8
    before = peak_memory()
    images = read_folder(folder, "train", 32, skip_broken=1.0)
    print(json.dumps({"read": len(images), "skipped": images.skipped, "grown_mb": peak_memory() - before}))


if __name__ == "__main__":
    main()
