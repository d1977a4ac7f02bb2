"""How far the filling of a store is: a line for each part whose pixels are on the disk.

A process can be killed at any moment; the next one goes on behind the last line. The journal is locked, so that only
one process fills a store.
"""

import fcntl
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from io import FileIO
from pathlib import Path
from typing import Any

from hardpair.data.images import SPLITS, Split
from hardpair.data.store import JOURNAL
from hardpair.errors import UserError
from hardpair.files import parse_json

HASH = 16  # bytes that tell one image from another
log = logging.getLogger("hardpair")


@dataclass(frozen=True)
class Heading:
    """What a store is filled with; what was begun with another one is not gone on with."""

    version: int
    size: int
    source: str
    key: str  # hash of the names, lengths and times of all files


@dataclass(frozen=True)
class DonePart:
    """Some files, one after the other in the listing, whose pixels are on the disk."""

    files: int
    skipped: dict[int, str]  # which of them could not be used, and why
    sha256: str | None  # of the pixels of the others
    hashes: str  # in hex, of each of the others; empty where nothing is hashed

    @property
    def images(self) -> int:
        """How many could be used."""
        return self.files - len(self.skipped)


class Journal:
    """The parts that are done."""

    def __init__(self, file: FileIO, *, hashed: bool) -> None:
        self.file, self.hashed = file, hashed
        self.parts: dict[Split, list[DonePart]] = {split: [] for split in SPLITS}

    def add(self, split: Split, part: DonePart) -> None:
        """Write one down, now that its pixels are safe."""
        self.write({"split": split, **asdict(part)})
        self.parts[split].append(part)

    def write(self, value: dict[str, Any]) -> None:
        """A line."""
        write_whole(self.file, json.dumps(value).encode() + b"\n")

    def read(self, lines: list[bytes]) -> None:
        """The parts that earlier processes wrote down."""
        for line in lines:
            content = parse_json(line.decode())
            split = content.pop("split")
            content["skipped"] = {int(place): str(reason) for place, reason in content["skipped"].items()}
            part = DonePart(**content)
            if part.images < 0 or len(part.hashes) != 2 * HASH * part.images * self.hashed:
                raise ValueError("a part that cannot be")
            self.parts[split].append(part)


@contextmanager
def open_journal(folder: Path, heading: Heading, *, wait: bool, hashed: bool) -> Iterator[Journal]:
    """The journal of a store, new or gone on with, held so that no second process fills it."""
    path = folder / JOURNAL
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise UserError(f"{path}: is no plain file; delete {folder}")
    with path.open("a+b", buffering=0) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if not wait:
                raise UserError(f"{folder}: is being packed by another process; wait for it") from error
            log.info("waiting for another process that decodes the same images")
            fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        *lines, half = file.read().split(b"\n")
        file.truncate(file.tell() - len(half))  # what a killed process left of a line
        journal = Journal(file, hashed=hashed)
        if len(lines) < 2:  # nothing is done yet, so nobody has to go on with it
            file.truncate(0)
            journal.write(asdict(heading))
        else:
            _go_on(journal, lines, heading, path)
        yield journal


def _go_on(journal: Journal, lines: list[bytes], heading: Heading, path: Path) -> None:
    try:
        begun = Heading(**parse_json(lines[0].decode()))
        journal.read(lines[1:])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: cannot be read ({str(error)[:200]}); delete {path.parent} and pack again") from error
    if begun != heading:
        what = f"of {begun.source} at {begun.size} px" if begun.source != heading.source else f"at {begun.size} px"
        if (begun.source, begun.size) == (heading.source, heading.size):
            what = "before the pictures changed"
        raise UserError(f"{path.parent}: was begun {what}; delete it to begin anew, or choose another folder")


def write_whole(file: FileIO, content: bytes | memoryview) -> None:
    """All of it; a disk that is filling up takes a part, and says no to the rest."""
    left = memoryview(content).cast("B")
    while left:
        left = left[file.write(left) :]
