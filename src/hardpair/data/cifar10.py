"""CIFAR-10 in its official binary layout: records of one label byte and three planes of 32 × 32 bytes."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from hardpair.data.download import check_file, fetch, unpack
from hardpair.data.images import Images, Split
from hardpair.errors import UserError

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
FOLDER = "cifar-10-batches-bin"
ARCHIVE = "cifar-10-binary.tar.gz"
RECORD = 1 + 3 * 32 * 32  # bytes
FILES: dict[Split, tuple[str, ...]] = {
    "train": tuple(f"data_batch_{k}.bin" for k in range(1, 6)),
    "test": ("test_batch.bin",),
}


@dataclass(frozen=True)
class Source:
    """Where the archive lies and how to know it."""

    url: str = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
    sha256: str = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
    size: int = 170_052_171  # bytes
    records: int = 10_000  # images in each file


def read_cifar10(root: Path, split: Split, *, source: Source | None = None) -> Images:
    """One split of CIFAR-10 from `root`; a root without it gets it by download."""
    source = source or Source()
    folder = root / FOLDER
    if not folder.exists():
        _provide(root, source)
    blocks = [_read_records(folder / name, source.records) for name in FILES[split]]
    records = np.concatenate(blocks)  # (N, 3073)
    pixels = torch.from_numpy(np.ascontiguousarray(records[:, 1:])).reshape(-1, 3, 32, 32)
    labels = torch.from_numpy(records[:, 0].astype(np.int64))
    return Images(pixels, labels, CLASSES, name=f"cifar10/{split}")


def _provide(root: Path, source: Source) -> None:
    """Unpack the archive that lies in `root`, or else a downloaded one that is deleted afterwards."""
    archive = root / ARCHIVE
    limits = {f"{FOLDER}/{name}": source.records * RECORD for names in FILES.values() for name in names}
    limits |= {f"{FOLDER}/batches.meta.txt": 10_000, f"{FOLDER}/readme.html": 100_000}
    if archive.exists():
        check_file(archive, source.sha256, source.size, name=str(archive))
        unpack(archive, root / FOLDER, limits)
    else:
        fetch(source.url, archive, source.sha256, source.size)
        unpack(archive, root / FOLDER, limits)
        archive.unlink(missing_ok=True)


def _read_records(path: Path, count: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    advice = f"delete the folder {path.parent} to download it again"
    if not path.is_file():
        raise UserError(f"{path}: missing; put it back, or {advice}")
    if (found := path.stat().st_size) != count * RECORD:
        raise UserError(f"{path}: {found:,} bytes where CIFAR-10 has {count * RECORD:,}; {advice}")
    records = np.fromfile(path, dtype=np.uint8).reshape(count, RECORD)
    if records[:, 0].max() >= len(CLASSES):
        raise UserError(f"{path}: has labels above 9, so it is not CIFAR-10; {advice}")
    return records
