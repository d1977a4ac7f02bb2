"""Fill a store: decoded images → its files, a part after the other; killed at any moment, it loses the part in hand."""

import hashlib
import itertools
import math
import os
import shutil
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path

import PIL

from hardpair.data.decode import Result
from hardpair.data.images import Split
from hardpair.data.journal import HASH, DonePart, Heading, Journal, open_journal, write_whole
from hardpair.data.layout import Listing
from hardpair.data.store import (
    DUPLICATES,
    INDEX,
    JOURNAL,
    QUARANTINE,
    Index,
    StoredPart,
    StoredSplit,
    read_index,
    write_index,
)
from hardpair.errors import UserError, printable
from hardpair.files import commit, write_atomically
from hardpair.text import scaled

FORMAT = 4  # raise it when decoding changes
Batches = Callable[[Split, int], Generator[list[Result], None, None]]  # of a split, without so many files at its start


class UnusableFilesError(UserError):
    """Too many files cannot be used."""


def files_key(root: Path, names: Iterable[str], size: int) -> str:
    """Hash of all that the pixels depend on: folder, files (name, bytes, time of change), size asked for."""
    sha = hashlib.sha256(f"{FORMAT} {size}\n".encode() + os.fsencode(os.path.realpath(root)))
    for name in names:
        try:
            # A path object would take as long as all the rest.
            facts = os.stat(os.path.join(root, name))  # noqa: PTH116, PTH118
            stamp = f"{facts.st_size} {facts.st_mtime_ns}"
        except OSError:  # a dangling link: skipped later, with its reason
            stamp = "-"
        sha.update(os.fsencode(name) + f"\0{stamp}\0".encode())
    return sha.hexdigest()


def fill_store(
    folder: Path,
    listings: Mapping[Split, Listing],
    batches: Batches,
    heading: Heading,
    *,
    most_skipped: float = 1.0,
    cache: bool = False,
) -> Index:
    """Fill the store in this folder, or go on where an earlier process was stopped.

    Args:
        folder: the store.
        listings: the files of each split, which name and label the images.
        batches: what they are decoded to.
        heading: what the store is known by.
        most_skipped: the share of the files of a split that may be unusable; more stop it as soon as that is certain.
        cache: no hashes, no list of duplicates; and wait for a process that fills the same store, instead of refusing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open_journal(folder, heading, wait=cache, hashed=not cache) as journal:
        if (folder / INDEX).exists():  # somebody else was faster
            return read_index(folder)
        _refuse_full_disk(folder, listings, journal, heading.size)
        for split in listings:
            _Filling(folder, split, listings, heading.size, journal, most_skipped).run_to_end(batches)
        index = publish(folder, listings, journal.parts, heading)
        (folder / JOURNAL).unlink()
        for draft in folder.glob(".*.tmp"):  # of a process that was killed at the end
            draft.unlink()
    return index


def check_skipped(listing: Listing, skipped: Sequence[str], share: float, where: str = "") -> None:
    """Refuse a listing of which more than a share of the files cannot be used; `where` says what lists them."""
    broken, total = len(skipped), len(listing.names)
    if broken <= share * total and broken < total:
        return
    advice = "fix or remove them" if share else "fix them, since none may be left out"
    if share and broken < total:
        advice += f", or leave them out with --skip-broken {math.ceil(100 * broken / total) / 100:g}"
    first = "; ".join(skipped[:3]) + "; …" * (broken > 3)
    raise UnusableFilesError(f"{listing.root}: {broken:,} of {total:,} files cannot be used; {advice}: {first}{where}")


def _refuse_full_disk(folder: Path, listings: Mapping[Split, Listing], journal: Journal, size: int) -> None:
    files = sum(len(listing.names) for listing in listings.values())
    done = sum(part.files for parts in journal.parts.values() for part in parts)
    needed, free = (files - done) * 3 * size**2, shutil.disk_usage(folder).free
    if needed > free:
        raise UserError(
            f"{folder}: needs {scaled(needed, 'B')} more where the disk has {scaled(free, 'B')} free; make room, "
            "choose another disk, or give a smaller --size"
        )


class _Filling:
    """One split: threads decode the next part while another one hashes and writes the last."""

    def __init__(
        self,
        folder: Path,
        split: Split,
        listings: Mapping[Split, Listing],
        size: int,
        journal: Journal,
        most_skipped: float,
    ) -> None:
        self.folder, self.split, self.listing, self.size, self.journal = folder, split, listings[split], size, journal
        self.path, self.most_skipped = folder / f"{split}.pixels", most_skipped
        self.skipped = {name: _skipped_lines(listing, journal.parts[name]) for name, listing in listings.items()}

    def run_to_end(self, batches: Batches) -> None:
        """All parts that are missing."""
        self._refuse_many_skipped()
        first = sum(part.files for part in self.journal.parts[self.split])
        with self._open() as file, ThreadPoolExecutor(1) as writer, closing(batches(self.split, first)) as results:
            written: Future[None] | None = None
            for batch in results:
                if written is not None:
                    written.result()
                written = writer.submit(self._write, file, batch)
            if written is not None:
                written.result()

    def _open(self) -> FileIO:
        """The file of the pixels, cut to the parts that are known to be whole."""
        known = sum(part.images for part in self.journal.parts[self.split]) * 3 * self.size**2
        file = FileIO(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666), "r+")
        if file.seek(0, os.SEEK_END) < known:
            file.close()
            raise UserError(f"{self.path}: is shorter than it was left; delete {self.folder} and pack again")
        file.truncate(known)
        file.seek(known)
        return file

    def _write(self, file: FileIO, batch: list[Result]) -> None:
        """One part: pixels first and, once they are safe, the line that says so."""
        skipped = {place: result for place, result in enumerate(batch) if isinstance(result, str)}
        sha, hashes = hashlib.sha256(), []
        try:
            for result in batch:
                if isinstance(result, str):
                    continue
                if self.journal.hashed:
                    sha.update(result.pixels.data)
                    hashes.append(hashlib.blake2b(result.pixels.data, digest_size=HASH).hexdigest())
                write_whole(file, result.pixels.data)
            os.fsync(file.fileno())
            sha256 = sha.hexdigest() if self.journal.hashed else None
            self.journal.add(self.split, DonePart(len(batch), skipped, sha256, "".join(hashes)))
        except OSError as error:
            reason = f"{self.path}: cannot be written ({error.strerror or error})"
            raise UserError(f"{reason}; fix that, and the same command continues") from error
        if skipped:
            self.skipped[self.split] = _skipped_lines(self.listing, self.journal.parts[self.split])
            self._refuse_many_skipped()

    def _refuse_many_skipped(self) -> None:
        """As soon as it is certain that too many are, and with the list of those found so far."""
        try:
            where = f" ({self.folder / QUARANTINE} lists those found so far)"
            check_skipped(self.listing, self.skipped[self.split], self.most_skipped, where)
        except UnusableFilesError:
            _write_quarantine(self.folder, self.skipped)
            raise


def publish(
    folder: Path, listings: Mapping[Split, Listing], parts: Mapping[Split, Sequence[DonePart]], heading: Heading
) -> Index:
    """Write all but the pixels, which are there; the index last."""
    names = {split: [listing.names[row] for row in _usable_rows(parts[split])] for split, listing in listings.items()}
    repeated, leaked = _write_duplicates(folder / DUPLICATES, names, parts)
    skipped = {split: _skipped_lines(listing, parts[split]) for split, listing in listings.items()}
    index = Index(
        size=heading.size,
        splits={
            split: _publish_split(folder, split, listing, names[split], parts[split])
            for split, listing in listings.items()
        },
        quarantine=_write_quarantine(folder, skipped),
        repeated=repeated,
        leaked=leaked,
        source=heading.source,
        key=heading.key,
        made=_made(),
    )
    write_index(folder, index)
    return index


def _publish_split(
    folder: Path, split: Split, listing: Listing, names: list[str], parts: Sequence[DonePart]
) -> StoredSplit:
    content = "\0".join(names).encode("utf-8", "surrogateescape")
    labels = None
    if listing.labels is not None:
        numbers = listing.labels.numpy()[_usable_rows(parts)].astype("<i8")
        labels = _write(folder / f"{split}.labels", numbers.tobytes())
    return StoredSplit(
        parts=tuple(StoredPart(part.images, part.sha256) for part in parts),
        classes=listing.classes,
        skipped=sum(len(part.skipped) for part in parts),
        names=_write(folder / f"{split}.names", content),
        labels=labels,
    )


def _usable_rows(parts: Sequence[DonePart]) -> list[int]:
    """Which of the listed files became images."""
    starts = itertools.accumulate((part.files for part in parts), initial=0)
    return [
        start + place
        for start, part in zip(starts, parts, strict=False)
        for place in range(part.files)
        if place not in part.skipped
    ]


def _skipped_lines(listing: Listing, parts: Sequence[DonePart]) -> list[str]:
    """ "file: reason" of the others."""
    starts = itertools.accumulate((part.files for part in parts), initial=0)
    return [
        f"{printable(listing.names[start + place])}: {reason}"
        for start, part in zip(starts, parts, strict=False)
        for place, reason in part.skipped.items()
    ]


def _write_quarantine(folder: Path, skipped: Mapping[Split, Sequence[str]]) -> str:
    """The list of all files that could not be used; its hash."""
    return _write(folder / QUARANTINE, _as_lines(f"{split}: {line}" for split in skipped for line in skipped[split]))


def _write_duplicates(
    file: Path, names: Mapping[Split, list[str]], parts: Mapping[Split, Sequence[DonePart]]
) -> tuple[int, int]:
    """A line for each image that has the pixels of an earlier one; how many within a split, how many across."""
    seen: dict[bytes, tuple[Split, int]] = {}
    lines, leaked = [], 0
    for split in names:
        hashes = b"".join(bytes.fromhex(part.hashes) for part in parts[split])
        for row in range(len(hashes) // HASH):
            first, place = seen.setdefault(hashes[row * HASH : (row + 1) * HASH], (split, row))
            if (first, place) != (split, row):
                leaked += first != split
                lines.append(f"{split}: {printable(names[split][row])} = {first}: {printable(names[first][place])}")
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
