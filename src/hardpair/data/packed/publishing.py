"""The end of packing: names, labels, what was left out, what is there twice, and at last the index."""

import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import PIL

from hardpair.data.images import Split
from hardpair.data.layout import Listing
from hardpair.data.packed.index import DUPLICATES, QUARANTINE, Index, PackedSplit, Part, write_index
from hardpair.data.packed.journal import HASH, DonePart, Heading
from hardpair.errors import printable
from hardpair.files import commit, write_atomically


def publish(
    folder: Path, listings: Mapping[Split, Listing], parts: Mapping[Split, Sequence[DonePart]], heading: Heading
) -> Index:
    """Write all but the pixels, which are there; the index last."""
    names = {split: [listing.names[row] for row in usable_rows(parts[split])] for split, listing in listings.items()}
    repeated, leaked = _write_duplicates(folder / DUPLICATES, names, parts)
    skipped = {split: skipped_lines(listing, parts[split]) for split, listing in listings.items()}
    index = Index(
        size=heading.size,
        splits={
            split: _publish_split(folder, split, listing, names[split], parts[split])
            for split, listing in listings.items()
        },
        quarantine=write_quarantine(folder, skipped),
        repeated=repeated,
        leaked=leaked,
        source=heading.source,
        key=heading.key,
        made=_made(),
    )
    write_index(folder, index)
    return index


def usable_rows(parts: Sequence[DonePart]) -> list[int]:
    """Which of the listed files became images."""
    starts = itertools.accumulate((part.files for part in parts), initial=0)
    return [
        start + place
        for start, part in zip(starts, parts, strict=False)
        for place in range(part.files)
        if place not in part.skipped
    ]


def skipped_lines(listing: Listing, parts: Sequence[DonePart]) -> list[str]:
    """ "file: reason" of the others."""
    starts = itertools.accumulate((part.files for part in parts), initial=0)
    return [
        f"{printable(listing.names[start + place])}: {reason}"
        for start, part in zip(starts, parts, strict=False)
        for place, reason in part.skipped.items()
    ]


def write_quarantine(folder: Path, skipped: Mapping[Split, Sequence[str]]) -> str:
    """The list of all files that could not be used; its hash."""
    return _write(folder / QUARANTINE, _as_lines(f"{split}: {line}" for split in skipped for line in skipped[split]))


def _publish_split(
    folder: Path, split: Split, listing: Listing, names: list[str], parts: Sequence[DonePart]
) -> PackedSplit:
    content = "\0".join(names).encode("utf-8", "surrogateescape")
    labels = None
    if listing.labels is not None:
        numbers = listing.labels.numpy()[usable_rows(parts)].astype("<i8")
        labels = _write(folder / f"{split}.labels", numbers.tobytes())
    return PackedSplit(
        parts=tuple(Part(part.images, part.sha256) for part in parts),
        classes=listing.classes,
        skipped=sum(len(part.skipped) for part in parts),
        names=_write(folder / f"{split}.names", content),
        labels=labels,
    )


def _write_duplicates(
    file: Path, names: Mapping[Split, list[str]], parts: Mapping[Split, Sequence[DonePart]]
) -> tuple[int, int]:
    """A line for each image that has the pixels of an earlier one; how many within a split, how many across."""
    seen: dict[bytes, tuple[Split, int]] = {}
    lines, leaked = [], 0
    for split in names:
        hashes = b"".join(bytes.fromhex(part.hashes) for part in parts[split])
        for row, name in enumerate(names[split]):
            first, place = seen.setdefault(hashes[row * HASH : (row + 1) * HASH], (split, row))
            if (first, place) != (split, row):
                leaked += first != split
                lines.append(f"{split}: {printable(name)} = {first}: {printable(names[first][place])}")
    _write(file, _as_lines(lines))
    return len(lines) - leaked, leaked


def _as_lines(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _write(file: Path, content: bytes) -> str:
    write_atomically(file, content)
    return hashlib.sha256(content).hexdigest()


def _made() -> str:
    from hardpair import __version__

    when = datetime.now(UTC).isoformat(timespec="seconds")
    return f"by hardpair {__version__} (commit {commit() or 'unknown'}) with Pillow {PIL.__version__} at {when}"
