"""`hardpair pack`: what is done, and what is said about it."""

from pathlib import Path

from hardpair.data.packed.checking import find_damage
from hardpair.data.packed.index import DUPLICATES, QUARANTINE, Index, read_index
from hardpair.data.packed.writing import pack
from hardpair.errors import UserError, printable
from hardpair.options import Pack
from hardpair.words import scaled, several

MOST_LINES = 20  # of damage; nobody reads more


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
        index = pack(source, target, options.size)
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
