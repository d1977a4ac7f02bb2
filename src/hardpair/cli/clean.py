"""`hardpair clean`: duplicates, leaks, outliers and likely label errors."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from hardpair.cli.arguments import parse
from hardpair.errors import printable


@dataclass(frozen=True)
class Clean:
    """Find duplicates, leaks between splits, outliers and likely label errors among the images of EMB.

    Near duplicates (re-encoded, resized, cropped, mirrored) are verified by pixels. EMB gets clean.csv and clean.html,
    a page with the pictures side by side. Nothing is deleted: --keep-list writes the names of the files worth keeping,
    which pretrain --data, pack and embed take.

    Args:
        embedding: folder that hardpair embed wrote.
        against: another embedding by the same encoder, such as of test images; what is in both counts as a leak.
        keep_list: file (.txt) for the names of the files worth keeping, one of each group of duplicates. Of a leak, the
            copy that is not for training is kept; else the largest.
        without: leave outliers, or images with doubtful labels, out of the keep list, too.
        out: folder for the table and the page; EMB when not given.
        images: where the pictures of EMB are now, if they were moved.
        data_root: where downloaded sets are kept.
        threads: of the CPU; 0 leaves the choice to torch.
    """

    embedding: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="EMB")]
    against: Path | None = None
    keep_list: Path | None = None
    without: tuple[Literal["outliers", "labels"], ...] = ()
    out: Path | None = None
    images: Path | None = None
    data_root: Path = Path("data")
    threads: int = 0


def main(arguments: Sequence[str]) -> int:
    """Look, and say what was found."""
    options = vars(parse(Clean, arguments, "hardpair clean"))
    from hardpair.embeddings.clean import PAGE, TABLE, clean

    found = clean(**options)
    for line in found.summary(options["without"]):
        print(printable(line))
    folder = options["out"] or options["embedding"]
    print(f"table: {folder / TABLE}\npage: {folder / PAGE}")
    if options["keep_list"] is not None:
        print(f"files worth keeping: {options['keep_list']}")
    return 0
