"""Pictures → a packed folder, a part after the other; killed at any moment, it loses the part in hand at most."""

import hashlib
import os
import shutil
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from io import FileIO
from pathlib import Path

from hardpair.data.cache import cache_key
from hardpair.data.folder import Result, check_skipped, decode_batches
from hardpair.data.images import Split
from hardpair.data.layout import Listing, NoTestSplitError, list_split
from hardpair.data.packed.index import (
    INDEX,
    JOURNAL,
    LEAST_SIZE,
    MOST_SIZE,
    QUARANTINE,
    VERSION,
    Index,
    is_packed,
    read_index,
)
from hardpair.data.packed.journal import HASH, DonePart, Heading, Journal, open_journal, write_whole
from hardpair.data.packed.publishing import publish, skipped_lines, write_quarantine
from hardpair.errors import UserError, printable, require_range
from hardpair.words import scaled

Listings = dict[Split, Listing]


def pack(source: Path, target: Path, size: int) -> Index:
    """Pack every split of a folder of pictures, or go on where an earlier call was stopped."""
    require_range("size", size, LEAST_SIZE, MOST_SIZE)
    _refuse_places(source, target)
    listings = _list_splits(source)
    heading = Heading(VERSION, size, os.path.realpath(source), _key(listings, size))
    if (target / INDEX).exists():
        return _finished(target, heading)
    target.mkdir(parents=True, exist_ok=True)
    with open_journal(target, heading) as journal:
        _refuse_full_disk(target, listings, journal, size)
        for split in listings:
            _Packing(target, split, listings, size, journal).run_to_end()
        index = publish(target, listings, journal.parts, heading)
        (target / JOURNAL).unlink()
        for draft in target.glob(".*.tmp"):  # of a process that was killed at the end
            draft.unlink()
    return index


def _refuse_places(source: Path, target: Path) -> None:
    if target.exists() and not target.is_dir():
        raise UserError(f"{target}: is a file; give a folder to pack into")
    if is_packed(source):
        raise UserError(f"{source}: is packed already; give the folder of the pictures")
    if target.resolve().is_relative_to(source.resolve()):
        raise UserError(f"{target}: lies in the folder of the pictures, and would be taken for one of theirs")
    if target.exists() and any(target.iterdir()) and not is_packed(target):
        raise UserError(f"{target}: is not empty, and what it holds was not packed; choose another folder")


def _list_splits(source: Path) -> Listings:
    listings: Listings = {"train": list_split(source, "train")}
    with suppress(NoTestSplitError):
        listings["test"] = list_split(source, "test")
    return listings


def _key(listings: Listings, size: int) -> str:
    keys = [cache_key(listing.root, listing.names, size) for listing in listings.values()]
    return hashlib.sha256(" ".join(keys).encode()).hexdigest()


def _finished(target: Path, heading: Heading) -> Index:
    """What an earlier call packed, if it is the same."""
    index = read_index(target)
    if (index.size, index.key) != (heading.size, heading.key):
        other = f"{index.source} at {index.size} px"
        raise UserError(f"{target}: holds {other}, packed before; choose another folder, or delete it to pack anew")
    (target / JOURNAL).unlink(missing_ok=True)
    return index


def _refuse_full_disk(target: Path, listings: Listings, journal: Journal, size: int) -> None:
    files = sum(len(listing.names) for listing in listings.values())
    done = sum(part.files for parts in journal.parts.values() for part in parts)
    needed, free = (files - done) * 3 * size**2, shutil.disk_usage(target).free
    if needed > free:
        raise UserError(
            f"{target}: needs {scaled(needed, 'B')} more where the disk has {scaled(free, 'B')} free; make room, "
            "choose another disk, or give a smaller --size"
        )


class _Packing:
    """One split: threads decode the next part while another one hashes and writes the last."""

    def __init__(self, folder: Path, split: Split, listings: Listings, size: int, journal: Journal) -> None:
        self.folder, self.split, self.listing, self.size, self.journal = folder, split, listings[split], size, journal
        self.path = folder / f"{split}.pixels"
        self.skipped = {name: skipped_lines(listing, journal.parts[name]) for name, listing in listings.items()}

    def run_to_end(self) -> None:
        """All parts that are missing."""
        self._refuse_many_skipped()
        first = sum(part.files for part in self.journal.parts[self.split])
        label = f"packing {self.split} images into {printable(str(self.folder))}"
        with (
            self._open() as file,
            ThreadPoolExecutor(1) as writer,
            closing(decode_batches(self.listing, self.size, label, lambda _, result: result, first=first)) as batches,
        ):
            written: Future[None] | None = None
            for batch in batches:
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
            for image in batch:
                if not isinstance(image, str):
                    sha.update(image.data)
                    hashes.append(hashlib.blake2b(image.data, digest_size=HASH).hexdigest())
                    write_whole(file, image.data)
            os.fsync(file.fileno())
            self.journal.add(self.split, DonePart(len(batch), skipped, sha.hexdigest(), "".join(hashes)))
        except OSError as error:
            reason = f"{self.path}: cannot be written ({error.strerror or error})"
            raise UserError(f"{reason}; mend that, and the same command goes on") from error
        if skipped:
            self.skipped[self.split] = skipped_lines(self.listing, self.journal.parts[self.split])
            self._refuse_many_skipped()

    def _refuse_many_skipped(self) -> None:
        """As soon as it is certain that too many are, and with the list of those found so far."""
        try:
            more = f" ({self.folder / QUARANTINE} lists those found so far)"
            check_skipped(self.listing, self.skipped[self.split], more=more)
        except UserError:
            write_quarantine(self.folder, self.skipped)
            raise
