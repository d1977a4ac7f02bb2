"""`hardpair embed`: pictures → vectors."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from hardpair.cli.arguments import parse
from hardpair.text import several


@dataclass(frozen=True)
class Embed:
    """Compute the vector of every image under an encoder, for search, map, clean, select and classify.

    OUT gets vectors.npy (N, D), images.jsonl (a line per image: filename, label if there is one, sha256, width, height)
    and manifest.json (which encoder, how it saw the images). A stopped embedding goes on with the same command. Files
    that cannot be read are left out and listed in broken.txt.

    Args:
        encoder: folder of a run, timm:NAME, a file of weights, or a folder that hardpair export wrote.
        images: a folder, a text file with a name per line, a packed set, sample or cifar10.
        out: folder of the embedding.
        image_size: pixels that the encoder sees; as in training when not given.
        dtype: of the stored vectors; float16 takes half the disk.
        format: also write embedding.parquet (opens in embedding-atlas; needs pip install 'hardpair[parquet]') or
            embedding.csv into OUT.
        name: for a file of weights: the encoder it belongs to, if the file does not show it.
        precision: of the encoder's arithmetic; auto takes bfloat16 where the hardware has it.
        data_root: where downloaded sets are kept.
        device: auto, cpu, cuda, cuda:1 …
        threads: of the CPU; 0 leaves the choice to torch.
    """

    encoder: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENCODER")]
    images: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="IMAGES")]
    out: Path
    image_size: int | None = None
    dtype: Literal["float32", "float16"] = "float32"
    format: Literal["", "parquet", "csv"] = ""
    name: str = ""
    precision: Literal["float32", "bfloat16", "auto"] = "float32"
    data_root: Path = Path("data")
    device: str = "auto"
    threads: int = 0


def main(arguments: Sequence[str]) -> int:
    """Embed, and say what there is now."""
    options = parse(Embed, arguments, "hardpair embed")
    from hardpair import distributed
    from hardpair.embeddings.embed import embed

    made = embed(**vars(options))
    if not distributed.is_main():
        return 0
    labels = f" of {len(made.classes):,} classes" if made.classes else ""
    vectors = f"{made.vectors.shape[1]} numbers each, {made.vectors.dtype}"
    print(f"{made.folder}: {several(len(made), 'image')}{labels}, {vectors}")
    if broken := made.manifest["images"]["broken"]:
        print(f"{several(broken, 'file')} could not be read; {made.folder / 'broken.txt'} says why")
    print(f"look at it with: hardpair map {made.folder}")
    return 0
