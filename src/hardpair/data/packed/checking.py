"""Whether a packed folder is still what was packed: every byte is read again."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from hardpair.data.images import Split
from hardpair.data.packed.index import QUARANTINE, Index, read_index
from hardpair.data.packed.reading import LONGEST_NAME, LONGEST_REASON, read_sealed, refuse_other_length
from hardpair.data.progress import progress
from hardpair.errors import UserError

CHUNK = 1 << 20


def find_damage(folder: Path) -> list[str]:
    """A line for each file or part that is not what was packed; an index that cannot be read is a `UserError`."""
    index = read_index(folder)
    total = sum(packed.skipped for packed in index.splits.values())
    found = [*_small(folder / QUARANTINE, index.quarantine, (LONGEST_NAME + LONGEST_REASON) * total)]
    for split, packed in index.splits.items():
        found += _small(folder / f"{split}.names", packed.names, (LONGEST_NAME + 1) * packed.images)
        found += _small(folder / f"{split}.labels", packed.labels, 8 * packed.images)
        found += _pixels(folder, split, index)
    return found


def _small(file: Path, sha256: str | None, most: int) -> Iterator[str]:
    try:
        if sha256 is not None:
            read_sealed(file, sha256, most=most)
    except UserError as error:
        yield str(error)


def _pixels(folder: Path, split: Split, index: Index) -> Iterator[str]:
    file = folder / f"{split}.pixels"
    try:
        refuse_other_length(file, index.bytes_of(split))
    except UserError as error:
        yield str(error)
        return
    start = 0
    with file.open("rb") as stream, progress(f"checking {file.name}", index.splits[split].images) as advance:
        for part in index.splits[split].parts:
            if _hash(stream, part.images * 3 * index.size**2) != part.sha256:
                yield f"{file}: images {start:,} to {start + part.images - 1:,} are not what was packed (by their hash)"
            start += part.images
            advance(part.images)


def _hash(stream: IO[bytes], length: int) -> str:
    sha = hashlib.sha256()
    while length and (chunk := stream.read(min(CHUNK, length))):
        sha.update(chunk)
        length -= len(chunk)
    return sha.hexdigest()
