"""Embeddings without an encoder: given vectors in the folder that `hardpair embed` would write."""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from hardpair.embeddings.embedding import Embedding, open_embedding, write_line


def make_embedding(
    folder: Path,
    vectors: np.ndarray,
    *,
    files: Sequence[str] | None = None,
    labels: Sequence[str | None] | None = None,
    splits: Sequence[str] | None = None,
    sha256: Sequence[str] | None = None,
    root: Path = Path("/nowhere"),
    encoder: str = "f" * 64,
    dtype: str = "float32",
) -> Embedding:
    """Write and open it. Pictures need not be there: verbs must say so, and go on."""
    folder.mkdir(parents=True, exist_ok=True)
    count, width = vectors.shape
    files = files or [f"{row:06d}.png" for row in range(count)]
    np.save(folder / "vectors.npy", vectors.astype(dtype))
    lines = []
    for row, name in enumerate(files):
        facts = {"filename": name}
        facts |= {"label": labels[row]} if labels and labels[row] is not None else {}
        facts |= {"split": splits[row]} if splits else {}
        hash_of_file = sha256[row] if sha256 else hashlib.sha256(os.fsencode(name)).hexdigest()
        lines.append(write_line(facts | {"sha256": hash_of_file, "width": 32, "height": 32}))
    (folder / "images.jsonl").write_bytes(b"".join(lines))
    settings = {"name": "resnet10", "width": 0.25, "small_images": True}
    manifest = {
        "what": "embedding by hardpair",
        "version": 1,
        "dtype": dtype,
        "encoder": {
            "source": "runs/none",
            "fingerprint": encoder,
            "num_features": width,
            "settings": settings,
            "square": 32,
            "shown": 32,
            "precision": "float32",
        },
        "images": {"count": count, "root": str(root), "source": str(root), "kind": "files", "broken": 0, "digest": ""},
        "vectors_sha256": hashlib.sha256((folder / "vectors.npy").read_bytes()).hexdigest(),
        "images_sha256": hashlib.sha256(b"".join(lines)).hexdigest(),
        "plan": "",
        "made": {},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return open_embedding(folder)


def blobs(count: int, width: int, classes: int, *, spread: float = 0.3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Vectors around one centre per class, and the class of each: the classes of real features, but known."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(classes, width))
    labels = random.integers(0, classes, count)
    return (centres[labels] + spread * random.normal(size=(count, width))).astype(np.float32), labels


def write_pictures(folder: Path, names: Sequence[str], *, side: int = 40, seed: int = 0) -> Path:
    """Pictures that differ, of smooth colours, under the given names."""
    random = np.random.default_rng(seed)
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        coarse = random.integers(0, 256, (4, 4, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC).save(path)
    return folder
