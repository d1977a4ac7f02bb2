"""The index of a packed folder, which anybody may have written: plain values, each of them checked."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hardpair.data.images import Split
from hardpair.errors import UserError, shown
from hardpair.files import read_json, write_atomically

WHAT, VERSION = "images packed by hardpair", 1
INDEX, JOURNAL = "packed.json", "packing.jsonl"
QUARANTINE, DUPLICATES = "quarantine.txt", "duplicates.txt"
SPLITS: tuple[Split, ...] = ("train", "test")
LEAST_SIZE, MOST_SIZE = 8, 1024  # pixels; a part of larger squares would fill gigabytes of memory
MOST_BYTES = 20_000_000  # ImageNet's index has 0.4 million
MOST_IMAGES = 1 << 40
SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Part:
    """Images that were written, and are hashed, together."""

    images: int
    sha256: str


@dataclass(frozen=True)
class PackedSplit:
    """What the index says of a split."""

    parts: tuple[Part, ...]
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
    """What a packed folder holds."""

    size: int  # pixels
    splits: Mapping[Split, PackedSplit]
    quarantine: str  # sha256
    repeated: int  # images that are another one of their split
    leaked: int  # test images that are training images
    source: str  # the folder of the pictures
    key: str  # hash of their names, lengths and times
    made: str  # when and by what, for people

    def bytes_of(self, split: Split) -> int:
        """Length of the file of its pixels."""
        return self.splits[split].images * 3 * self.size**2


def is_packed(folder: Path) -> bool:
    """Whether this is, or was going to be, a packed folder."""
    return any(os.access(folder / name, os.F_OK) for name in (INDEX, JOURNAL))


def write_index(folder: Path, index: Index) -> None:
    """The last thing that packing does."""
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


def _parse(content: Any) -> Index:
    if content["what"] != WHAT:
        raise ValueError("it is no index of packed images")
    if content["version"] != VERSION:
        raise ValueError(f"this hardpair knows version {VERSION} of packed images, and not {shown(content['version'])}")
    splits = {split: _split(content["splits"][split]) for split in SPLITS if split in content["splits"]}
    if "train" not in splits:
        raise ValueError("it has no training images")
    return Index(
        size=_number(content["size"], LEAST_SIZE, MOST_SIZE),
        splits=splits,
        quarantine=_hash(content["quarantine"]),
        repeated=_number(content["repeated"]),
        leaked=_number(content["leaked"]),
        source=_text(content["source"]),
        key=_hash(content["key"]),
        made=_text(content["made"]),
    )


def _split(content: Any) -> PackedSplit:
    parts = tuple(Part(_number(part["images"]), _hash(part["sha256"])) for part in _list(content["parts"]))
    classes = tuple(map(_text, _list(content["classes"])))
    split = PackedSplit(
        parts=parts,
        classes=classes,
        skipped=_number(content["skipped"]),
        names=_hash(content["names"]),
        labels=_hash(content["labels"]) if classes else None,
    )
    _number(split.images, 1)
    return split


def _number(value: Any, low: int = 0, high: int = MOST_IMAGES) -> int:
    if type(value) is not int or not low <= value <= high:  # False is an int, too
        raise ValueError(f"{shown(value)} is not a number from {low} to {high}")
    return value


def _hash(value: Any) -> str:
    if not SHA256.fullmatch(_text(value)):
        raise ValueError(f"{shown(value)} is not a hash")
    return str(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{shown(value)} is not text")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{shown(value)} is not a list")
    return value
