"""A small set to pack, in parts of four pictures, and what must have come of it."""

from pathlib import Path

from hardpair.data.pack import pack

TRAINED, TESTED = 30, 10  # pictures
FILES, PART, SIZE = TRAINED + TESTED, 4, 8


def as_if_nothing_had_been(pictures: Path, target: Path) -> bool:
    """Every file, to the byte, but for the time in the index."""
    undisturbed = target.with_name("undisturbed")
    index = pack(pictures, undisturbed, SIZE)
    names = sorted(path.name for path in undisturbed.iterdir())
    assert sorted(path.name for path in target.iterdir()) == names
    assert pack(pictures, target, SIZE).splits == index.splits
    return all(
        (target / name).read_bytes() == (undisturbed / name).read_bytes() for name in names if "json" not in name
    )
