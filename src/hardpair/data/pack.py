"""`hardpair pack`: fill a store with every split of a folder."""

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
    INDEX,
    JOURNAL,
    VERSION,
    Index,
    is_packed,
    read_index,
)
from hardpair.errors import UserError, printable, require_range

MOST_SIZE = 1024  # pixels


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
