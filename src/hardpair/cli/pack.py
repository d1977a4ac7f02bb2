"""`hardpair pack`: decode a folder once for all."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from hardpair.cli.arguments import parse
from hardpair.errors import UserError, printable
from hardpair.text import scaled, several

if TYPE_CHECKING:
    from hardpair.data.store import Index

MOST_LINES = 20  # of damage; nobody reads more


@dataclass(frozen=True)
class Pack:
    """Decode a folder of pictures once into files that training maps: for sets that do not fit in memory.

    hardpair pack PHOTOS PACKED packs every split of PHOTOS, and --data PACKED then gives the same images, labels and
    order as --data PHOTOS. Ctrl-C stops it, and the same command goes on. Files that cannot be used are listed in
    PACKED/quarantine.txt (more than 5 % of them stop it), images that are there twice, or in training and test, in
    PACKED/duplicates.txt. hardpair pack --check PACKED reads every byte again and says what is damaged; its exit code
    is 1 where something is.

    Args:
        folders: PHOTOS, a folder of pictures or a list of files as for --data, and PACKED, which takes 3 x size x size
            bytes per image: ImageNet at 224 px has 200 GB.
        size: pixels of the squares; a packed set has this one size. 224 is what the recipes for large sets train with,
            and in much smaller squares most sets fit in memory.
        skip_broken: share of unreadable files that may be left out, such as 0.2; up to 5 % always may.
        check: look for damage in PACKED instead.
    """

    folders: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="PHOTOS PACKED")]
    size: int = 224
    skip_broken: float = 0.0
    check: bool = False


def main(arguments: Sequence[str]) -> int:
    """Pack, or check what was packed."""
    options = parse(Pack, arguments, "hardpair pack")
    folders = [folder.expanduser() for folder in options.folders]
    if options.check:
        if len(folders) != 1:
            raise UserError("check: give one packed folder: hardpair pack --check PACKED")
        return _check(folders[0])
    if len(folders) != 2:
        raise UserError("folders: give the pictures and the folder to pack them into: hardpair pack PHOTOS PACKED")
    from hardpair.data.pack import pack

    source, target = folders
    try:
        index = pack(source, target, options.size, skip_broken=options.skip_broken)
    except KeyboardInterrupt:
        print("stopped; the same command goes on from there")
        return 130
    for line in _summary(target, index):
        print(printable(line))
    return 0


def _summary(target: Path, index: "Index") -> list[str]:
    from hardpair.data.store import DUPLICATES, QUARANTINE

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
    from hardpair.data.store import find_damage, read_index

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
