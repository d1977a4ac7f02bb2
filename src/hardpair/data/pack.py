"""`hardpair pack`: fill a store with every split of a folder, or check one; and what is said about it."""

import hashlib
import os
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

from hardpair.data.cache import MOST_SKIPPED
from hardpair.data.decode import Result, decode_batches
from hardpair.data.fill import files_key, fill_store
from hardpair.data.images import LEAST_SIZE, Split
from hardpair.data.journal import Heading
from hardpair.data.layout import Listing, NoTestSplitError, list_split
from hardpair.data.store import (
    DUPLICATES,
    INDEX,
    JOURNAL,
    QUARANTINE,
    VERSION,
    Index,
    find_damage,
    is_packed,
    read_index,
)
from hardpair.errors import UserError, printable, require_range
from hardpair.options import Pack
from hardpair.words import scaled, several

MOST_SIZE = 1024  # pixels
MOST_LINES = 20  # of damage; nobody reads more


def pack(source: Path, target: Path, size: int, *, skip_broken: float = 0.0) -> Index:
    """Pack every split of a folder of pictures, or go on where an earlier call was stopped."""
    require_range("size", size, LEAST_SIZE, MOST_SIZE)
    require_range("skip_broken", skip_broken, 0, 1)
    _refuse_places(source, target)
    listings: dict[Split, Listing] = {"train": list_split(source, "train")}
    with suppress(NoTestSplitError):
        listings["test"] = list_split(source, "test")
    keys = [files_key(listing.root, listing.names, size) for listing in listings.values()]
    heading = Heading(VERSION, size, os.path.realpath(source), hashlib.sha256(" ".join(keys).encode()).hexdigest())
    if (target / INDEX).exists():
        return _finished(target, heading)

    def batches(split: Split, first: int) -> Generator[list[Result], None, None]:
        label = f"packing {split} images into {printable(str(target))}"
        return decode_batches(listings[split], size, label, first=first)

    return fill_store(target, listings, batches, heading, most_skipped=max(MOST_SKIPPED, skip_broken))


def _refuse_places(source: Path, target: Path) -> None:
    if target.exists() and not target.is_dir():
        raise UserError(f"{target}: is a file; give a folder to pack into")
    if is_packed(source):
        raise UserError(f"{source}: is packed already; give the folder of the pictures")
    if target.resolve().is_relative_to(source.resolve()):
        raise UserError(f"{target}: lies in the folder of the pictures, and would be taken for one of theirs")
    if target.exists() and any(target.iterdir()) and not is_packed(target):
        raise UserError(f"{target}: is not empty, and what it holds was not packed; choose another folder")


def _finished(target: Path, heading: Heading) -> Index:
    """What an earlier call packed, if it is the same."""
    index = read_index(target)
    if (index.size, index.key) != (heading.size, heading.key):
        other = f"{index.source} at {index.size} px"
        raise UserError(f"{target}: holds {other}, packed before; choose another folder, or delete it to pack anew")
    (target / JOURNAL).unlink(missing_ok=True)
    return index


def run_pack(options: Pack) -> int:
    """Pack, or check what was packed; the exit code."""
    folders = [folder.expanduser() for folder in options.folders]
    if options.check:
        if len(folders) != 1:
            raise UserError("check: give one packed folder: hardpair pack --check TARGET")
        return _check(folders[0])
    if len(folders) != 2:
        raise UserError("folders: give the pictures and the folder to pack them into: hardpair pack SOURCE TARGET")
    source, target = folders
    try:
        index = pack(source, target, options.size, skip_broken=options.skip_broken)
    except KeyboardInterrupt:
        print("stopped; the same command goes on from there")
        return 130
    for line in _summary(target, index):
        print(printable(line))
    return 0


def _summary(target: Path, index: Index) -> list[str]:
    splits = " and ".join(f"{packed.images:,} {split}" for split, packed in index.splits.items())
    classes = len(index.splits["train"].classes)
    length = sum(index.bytes_of(split) for split in index.splits)
    kind = f"of {classes:,} classes" if classes else "without labels"
    lines = [f"{target}: {splits} images {kind}, {index.size} px, {scaled(length, 'B')}"]
    if skipped := sum(packed.skipped for packed in index.splits.values()):
        lines.append(f"{several(skipped, 'file')} could not be used; {QUARANTINE} says why")
    if index.repeated:
        lines.append(f"{several(index.repeated, 'image')} too many, equal to another; {DUPLICATES} lists them")
    if index.leaked:
        lines.append(
            f"{several(index.leaked, 'test image')} also to train on, so that scores on them are too good: "
            f"remove them from one side and pack anew; {DUPLICATES} lists them"
        )
    return [*lines, f"use it with: --data {target} --image-size {index.size}"]


def _check(folder: Path) -> int:
    damage = find_damage(folder)
    for line in damage[:MOST_LINES]:
        print(printable(line))
    if len(damage) > MOST_LINES:
        print(f"… and {len(damage) - MOST_LINES:,} more")
    if damage:
        print(f"{folder}: is damaged; copy it again from where it is sound, or delete it and pack the pictures again")
        return 1
    splits = read_index(folder).splits.values()
    parts, images = sum(len(packed.parts) for packed in splits), sum(packed.images for packed in splits)
    print(f"{folder}: sound, every byte of {images:,} images in {several(parts, 'part')}")
    return 0
