"""One store of decoded pixels: what the cache and `hardpair pack` fill (fill.py), and training maps.

A store is a folder. For each split it has `train.pixels`, uint8 (N, 3, S, S) and nothing else; `train.labels`,
int64 (N,), where there are labels; `train.names`, the names of the files with a zero byte between them.
`quarantine.txt` lists the files that could not be used, and `duplicates.txt` of a packed set the images that are there
twice. `packed.json` is the index: it holds the hash of each of these files, and in a packed set that of every part of
the pixels. It is written last; without it, a store is unfinished. Anybody may have written it, so that each value is
checked, no pickle is read, and no memory is set aside for what an index claims before the file is as long.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from hardpair.data.images import LEAST_SIZE, SPLITS, Images, KnownHash, Split, map_file
from hardpair.data.progress import progress
from hardpair.errors import UserError, printable, shown
from hardpair.files import read_json, read_plain, write_atomically

WHAT, VERSION = "images packed by hardpair", 1
INDEX, JOURNAL = "packed.json", "packing.jsonl"
QUARANTINE, DUPLICATES = "quarantine.txt", "duplicates.txt"
MOST_SIZE = 1 << 14  # pixels a side
MOST_BYTES = 20_000_000  # ImageNet's index has 0.4 million
MOST_IMAGES = 1 << 40
LONGEST_NAME, LONGEST_REASON = 4096, 500  # bytes; the first is what systems allow a path
CHUNK = 1 << 20
SHA256 = re.compile(r"[0-9a-f]{64}")
AGAIN = "copy it again from where it is sound, or pack the pictures again"


@dataclass(frozen=True)
class StoredPart:
    """Images that were written, and are hashed, together."""

    images: int
    sha256: str | None  # None in the cache, which nobody checks


@dataclass(frozen=True)
class StoredSplit:
    """What the index says of a split."""

    parts: tuple[StoredPart, ...]
    classes: tuple[str, ...]  # empty without labels
    skipped: int  # files that could not be used
    names: str  # sha256 of the file of that name
    labels: str | None

    @property
    def images(self) -> int:
        """How many."""
        return sum(part.images for part in self.parts)


@dataclass(frozen=True)
class Index:
    """What a store holds."""

    size: int  # pixels
    splits: Mapping[Split, StoredSplit]
    quarantine: str  # sha256
    repeated: int  # images that are another one of their split
    leaked: int  # test images that are training images
    source: str  # the folder of the pictures
    key: str  # hash of their names, lengths and times
    made: str  # when and by what, for people

    def bytes_of(self, split: Split) -> int:
        """Length of the file of its pixels."""
        return self.splits[split].images * 3 * self.size**2


class OtherSizeError(UserError):
    """Packed images were asked for at a size that they do not have.

    `size` is the one they have, `source` the folder of their pictures.
    """

    def __init__(self, folder: Path, index: Index, size: int) -> None:
        self.source, self.size = printable(index.source), index.size
        super().__init__(
            f"{folder}: holds squares of {index.size} px, not of {size}; give --image-size {index.size}, or the "
            f"pictures themselves ({index.source}), or pack those with --size {size}"
        )


def is_packed(folder: Path) -> bool:
    """Whether this is, or was going to be, a store."""
    return any(os.access(folder / name, os.F_OK) for name in (INDEX, JOURNAL))


def write_index(folder: Path, index: Index) -> None:
    """The last thing that filling a store does."""
    content = {"what": WHAT, "version": VERSION, **asdict(index)}
    write_atomically(folder / INDEX, json.dumps(content, indent=1).encode())


def read_index(folder: Path) -> Index:
    """What it says, if that can be true; the files it speaks of are not looked at."""
    file = folder / INDEX
    if not is_packed(folder):
        raise UserError(f"{folder}: is no folder that hardpair pack made")
    if not file.exists():
        raise UserError(f"{folder}: is not packed to the end; go on with the hardpair pack command it was begun with")
    try:
        return _parse(read_json(file, most=MOST_BYTES))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise UserError(f"{file}: cannot be read ({reason[:200]}); pack the pictures again") from error


def split_of(folder: Path, index: Index, split: Split, size: int) -> StoredSplit:
    """What the index says of a split of that size.

    A store has one size: to resize at every batch would be slow, and not give what decoding at that size gives.
    """
    if size != index.size:
        raise OtherSizeError(folder, index, size)
    if split not in index.splits:
        raise UserError(f"{folder}: holds no {split} images, since {index.source} had none when it was packed")
    return index.splits[split]


def open_store(folder: Path, split: Split, size: int) -> Images:
    """One split. All files are checked for their length, and all but the pixels for their hash.

    Hashing the pixels would take as long as reading them all; `hardpair pack --check` does it.
    """
    index = read_index(folder)
    stored = split_of(folder, index, split, size)
    file = folder / f"{split}.pixels"
    _refuse_other_length(file, index.bytes_of(split))
    block = torch.from_numpy(map_file(file, (stored.images, 3, size, size), np.uint8))
    sha256 = _hash_of_parts(stored)
    return Images(
        block,
        _labels(folder / f"{split}.labels", stored),
        stored.classes,
        name=printable(f"{folder.resolve().name}/{split}"),
        skipped=_skipped(folder / QUARANTINE, split, index),
        files=_names(folder / f"{split}.names", stored),
        known=None if sha256 is None else KnownHash(block, sha256),
    )


def find_damage(folder: Path) -> list[str]:
    """Read every byte: a line for each file or part that is not what was packed; UserError without a readable index."""
    index = read_index(folder)
    total = sum(stored.skipped for stored in index.splits.values())
    found = [*_check_sealed(folder / QUARANTINE, index.quarantine, (LONGEST_NAME + LONGEST_REASON) * total)]
    for split, stored in index.splits.items():
        found += _check_sealed(folder / f"{split}.names", stored.names, (LONGEST_NAME + 1) * stored.images)
        found += _check_sealed(folder / f"{split}.labels", stored.labels, 8 * stored.images)
        found += _check_pixels(folder, split, index)
    return found


def _parse(content: Any) -> Index:
    if content["what"] != WHAT:
        raise ValueError("it is no index of packed images")
    if content["version"] != VERSION:
        raise ValueError(f"this hardpair knows version {VERSION} of packed images, and not {shown(content['version'])}")
    splits = {split: _parse_split(content["splits"][split]) for split in SPLITS if split in content["splits"]}
    if not splits:
        raise ValueError("it has no images")
    return Index(
        size=_number(content["size"], LEAST_SIZE, MOST_SIZE),
        splits=splits,
        quarantine=_hash(content["quarantine"]),
        repeated=_number(content["repeated"]),
        leaked=_number(content["leaked"]),
        source=_typed(content["source"], str),
        key=_hash(content["key"]),
        made=_typed(content["made"], str),
    )


def _parse_split(content: Any) -> StoredSplit:
    classes = tuple(_typed(name, str) for name in _typed(content["classes"], list))
    split = StoredSplit(
        parts=tuple(_parse_part(part) for part in _typed(content["parts"], list)),
        classes=classes,
        skipped=_number(content["skipped"]),
        names=_hash(content["names"]),
        labels=_hash(content["labels"]) if classes else None,
    )
    _number(split.images, 1)
    return split


def _parse_part(content: Any) -> StoredPart:
    sha256 = content["sha256"]
    return StoredPart(_number(content["images"]), None if sha256 is None else _hash(sha256))


def _number(value: Any, low: int = 0, high: int = MOST_IMAGES) -> int:
    if type(value) is not int or not low <= value <= high:  # False is an int, too
        raise ValueError(f"{shown(value)} is not a number from {low} to {high}")
    return value


def _hash(value: Any) -> str:
    if not SHA256.fullmatch(_typed(value, str)):
        raise ValueError(f"{shown(value)} is not a hash")
    return str(value)


def _typed(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{shown(value)} is not {'text' if kind is str else 'a list'}")
    return value


def _refuse_other_length(file: Path, wanted: int) -> None:
    """Before anything is read or mapped."""
    if not file.is_file():
        raise UserError(f"{file}: is missing; {AGAIN}")
    if (found := file.stat().st_size) != wanted:
        raise UserError(f"{file}: {found:,} bytes where {wanted:,} were packed; {AGAIN}")


def _read_sealed(file: Path, sha256: str, *, most: int) -> bytes:
    """The content of a small file, if it is what was written."""
    try:
        content = read_plain(file, most=most)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"{file}: cannot be read ({reason}); {AGAIN}") from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise UserError(f"{file}: is not what was packed (by its hash); {AGAIN}")
    return content


def _labels(file: Path, stored: StoredSplit) -> Tensor | None:
    if stored.labels is None:
        return None
    _refuse_other_length(file, 8 * stored.images)
    labels = np.frombuffer(_read_sealed(file, stored.labels, most=8 * stored.images), dtype="<i8").astype(np.int64)
    if labels.min() < 0 or labels.max() >= len(stored.classes):
        raise UserError(f"{file}: has labels of none of the {len(stored.classes)} classes; {AGAIN}")
    return torch.from_numpy(labels)


def _names(file: Path, stored: StoredSplit) -> tuple[str, ...]:
    content = _read_sealed(file, stored.names, most=(LONGEST_NAME + 1) * stored.images)
    names = tuple(content.decode("utf-8", "surrogateescape").split("\0"))
    if len(names) != stored.images:
        raise UserError(f"{file}: has {len(names):,} names of {stored.images:,} images; {AGAIN}")
    return names


def _skipped(file: Path, split: Split, index: Index) -> tuple[str, ...]:
    """ "file: reason" of each; the list has those of all splits, with their split before them."""
    total = sum(stored.skipped for stored in index.splits.values())
    content = _read_sealed(file, index.quarantine, most=(LONGEST_NAME + LONGEST_REASON) * total)
    lines = content.decode("utf-8", "replace").splitlines()
    own = tuple(printable(line.removeprefix(f"{split}: ")) for line in lines if line.startswith(f"{split}: "))
    if len(own) != index.splits[split].skipped:
        raise UserError(f"{file}: lists {len(own):,} {split} files, and not {index.splits[split].skipped:,}; {AGAIN}")
    return own


def _hash_of_parts(stored: StoredSplit) -> str | None:
    if any(part.sha256 is None for part in stored.parts):
        return None
    lines = [f"{part.images} {part.sha256}\n" for part in stored.parts]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _check_sealed(file: Path, sha256: str | None, most: int) -> Iterator[str]:
    try:
        if sha256 is not None:
            _read_sealed(file, sha256, most=most)
    except UserError as error:
        yield str(error)


def _check_pixels(folder: Path, split: Split, index: Index) -> Iterator[str]:
    file, start, image = folder / f"{split}.pixels", 0, 3 * index.size**2
    try:
        _refuse_other_length(file, index.bytes_of(split))
    except UserError as error:
        yield str(error)
        return
    with file.open("rb") as stream, progress(f"checking {file.name}", index.splits[split].images) as advance:
        for part in index.splits[split].parts:
            images = f"images {start:,} to {start + part.images - 1:,}"
            if part.sha256 is None:
                yield f"{file}: {images} cannot be checked: the index has no hash of them"
            elif _hash_at(stream, start * image, part.images * image) != part.sha256:
                yield f"{file}: {images} are not what was packed (by their hash)"
            start += part.images
            advance(part.images)


def _hash_at(stream: IO[bytes], place: int, length: int) -> str:
    stream.seek(place)
    sha = hashlib.sha256()
    while length and (chunk := stream.read(min(CHUNK, length))):
        sha.update(chunk)
        length -= len(chunk)
    return sha.hexdigest()
