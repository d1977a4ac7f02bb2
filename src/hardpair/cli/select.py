"""`hardpair select`: which images to label first."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from hardpair.cli.arguments import parse
from hardpair.text import several


@dataclass(frozen=True)
class Select:
    """Choose the images of EMB to label first, as a table to fill in and a page to look at.

    typical: images are put into as many clusters as are wanted, and the densest image of each is chosen, the largest
    cluster first. coverage: each next image is the one that most images are near to which nothing chosen is near to.
    uncertain: a classifier is fitted on --labels, and those are chosen that it hesitates about.

    Fill in the column label, then: hardpair classify EMB --labels TABLE. Of images with splits only those to train on
    are chosen.

    Args:
        embedding: folder that hardpair embed wrote.
        count: how many.
        by: typical, coverage or uncertain; typical when not given.
        labels: a CSV with the columns filename and label, of images that are labelled already; they are not chosen.
        out: the table; when not given EMB/select.csv, or select-2.csv and so on where labels were filled in already.
            The page lies beside it.
        images: where the pictures are now, if they were moved.
        data_root: where downloaded sets are kept.
        seed: of the clusters.
        threads: of the CPU; 0 leaves the choice to torch.
    """

    embedding: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="EMB")]
    count: int = 100
    by: Literal["", "typical", "coverage", "uncertain"] = ""
    labels: Path | None = None
    out: Path | None = None
    images: Path | None = None
    data_root: Path = Path("data")
    seed: int = 0
    threads: int = 0


def main(arguments: Sequence[str]) -> int:
    """Choose, and say where the table and the page are."""
    options = vars(parse(Select, arguments, "hardpair select"))
    from hardpair.embeddings.select import next_table, select

    out = options.pop("out") or next_table(options["embedding"])
    page = out.with_suffix(".html")
    chosen = select(**options, out=out, page=page)
    known = f", beside {several(chosen.labelled, 'label')}" if chosen.labelled else ""
    print(f"{several(len(chosen.choices), 'image')} of {chosen.among:,} chosen ({chosen.by}){known}")
    if chosen.copies and chosen.copies == chosen.among - len(chosen.choices):
        print("all others are copies of these" + (" or of labelled ones" if known else ""))
    print(f"page: {page}")
    print(f"fill in the column label of {out}, then: hardpair classify {options['embedding']} --labels {out}")
    return 0
