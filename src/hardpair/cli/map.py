"""`hardpair map`: an embedding → one page to look at it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hardpair.cli.arguments import parse


@dataclass(frozen=True)
class Map:
    """Show all pictures of an embedding on a map: those that the encoder finds alike lie together.

    Writes one HTML file that works offline in any browser: zoom in to see the pictures, colour them by label, cluster,
    split or outlier score, search by name, click one for its neighbours and hard pairs, and draw around pictures to
    download their list. EMB gets map.npz with x, y and cluster of each, as do its
    embedding.parquet and embedding.csv.

    Args:
        embedding: folder that hardpair embed wrote.
        out: the page; map.html in EMB when not given.
        images: where the pictures are now, if they were moved.
        thumbnails: how many pictures the page holds at most; of more images, a sample that is spread over the map.
        data_root: where downloaded sets are kept.
        threads: of the CPU; 0 leaves the choice to torch.
    """

    embedding: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="EMB")]
    out: Path | None = None
    images: Path | None = None
    thumbnails: int = 20_000
    data_root: Path = Path("data")
    threads: int = 0


def main(arguments: Sequence[str]) -> int:
    """Write the page, and say where it is."""
    options = parse(Map, arguments, "hardpair map")
    from hardpair.embeddings.map import map  # noqa: A004 - every verb is a function of its name

    print(f"open {map(**vars(options)).resolve()}")
    return 0
