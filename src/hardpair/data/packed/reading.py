"""A packed folder as images: its pixels are mapped, so that no number of images or processes fills the memory."""

import hashlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from hardpair.data.images import Images, KnownHash, Split
from hardpair.data.mapping import map_file
from hardpair.data.packed.index import QUARANTINE, Index, PackedSplit, read_index
from hardpair.errors import UserError, printable
from hardpair.files import read_plain

LONGEST_NAME, LONGEST_REASON = 4096, 500  # bytes; the first is what systems allow a path
AGAIN = "copy it again from where it is sound, or pack the pictures again"


class OtherSizeError(UserError):
    """Packed images were asked for at a size that they do not have; `source` is the folder of their pictures."""

    def __init__(self, folder: Path, index: Index, size: int) -> None:
        self.source = printable(index.source)
        super().__init__(
            f"{folder}: holds squares of {index.size} px, not of {size}; give --image-size {index.size}, or the "
            f"pictures themselves ({index.source}), or pack those with --size {size}"
        )


def open_packed(folder: Path, split: Split, size: int) -> Images:
    """One split. All files are checked for their length, and all but the pixels for their hash.

    Hashing the pixels would take as long as reading them all; `hardpair pack --check` does it.
    """
    index = read_index(folder)
    refuse_other_size(folder, index, size)
    if split not in index.splits:
        raise UserError(f"{folder}: holds no {split} images, since {index.source} had none when it was packed")
    packed = index.splits[split]
    block = _pixels(folder, split, index)
    return Images(
        block,
        _labels(folder / f"{split}.labels", packed),
        packed.classes,
        name=printable(f"{folder.resolve().name}/{split}"),
        skipped=_skipped(folder / QUARANTINE, split, index),
        files=_names(folder / f"{split}.names", packed),
        known=KnownHash(block, _hash_of_parts(packed)),
    )


def refuse_other_size(folder: Path, index: Index, size: int) -> None:
    """Packed images have one size: to resize them at every batch would be slow, and not what decoding at it gives."""
    if size != index.size:
        raise OtherSizeError(folder, index, size)


def _pixels(folder: Path, split: Split, index: Index) -> Tensor:
    file = folder / f"{split}.pixels"
    refuse_other_length(file, index.bytes_of(split))
    return torch.from_numpy(map_file(file, (index.splits[split].images, 3, index.size, index.size), np.uint8))


def refuse_other_length(file: Path, wanted: int) -> None:
    """Before anything is read or mapped."""
    if not file.is_file():
        raise UserError(f"{file}: is missing; {AGAIN}")
    if (found := file.stat().st_size) != wanted:
        raise UserError(f"{file}: {found:,} bytes where {wanted:,} were packed; {AGAIN}")


def read_sealed(file: Path, sha256: str, *, most: int) -> bytes:
    """The content of a small file, if it is what was packed."""
    try:
        content = read_plain(file, most=most)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"{file}: cannot be read ({reason}); {AGAIN}") from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise UserError(f"{file}: is not what was packed (by its hash); {AGAIN}")
    return content


def _labels(file: Path, packed: PackedSplit) -> Tensor | None:
    if packed.labels is None:
        return None
    refuse_other_length(file, 8 * packed.images)
    labels = np.frombuffer(read_sealed(file, packed.labels, most=8 * packed.images), dtype="<i8").astype(np.int64)
    if labels.min() < 0 or labels.max() >= len(packed.classes):
        raise UserError(f"{file}: has labels of none of the {len(packed.classes)} classes; {AGAIN}")
    return torch.from_numpy(labels)


def _names(file: Path, packed: PackedSplit) -> tuple[str, ...]:
    content = read_sealed(file, packed.names, most=(LONGEST_NAME + 1) * packed.images)
    names = tuple(content.decode("utf-8", "surrogateescape").split("\0"))
    if len(names) != packed.images:
        raise UserError(f"{file}: has {len(names):,} names of {packed.images:,} images; {AGAIN}")
    return names


def _skipped(file: Path, split: Split, index: Index) -> tuple[str, ...]:
    """ "file: reason" of each; the list has those of all splits, with their split before them."""
    total = sum(packed.skipped for packed in index.splits.values())
    content = read_sealed(file, index.quarantine, most=(LONGEST_NAME + LONGEST_REASON) * total)
    lines = content.decode("utf-8", "replace").splitlines()
    own = tuple(printable(line.removeprefix(f"{split}: ")) for line in lines if line.startswith(f"{split}: "))
    if len(own) != index.splits[split].skipped:
        raise UserError(f"{file}: lists {len(own):,} {split} files, and not {index.splits[split].skipped:,}; {AGAIN}")
    return own


def _hash_of_parts(packed: PackedSplit) -> str:
    lines = [f"{part.images} {part.sha256}\n" for part in packed.parts]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
