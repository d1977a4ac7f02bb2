"""After the score, from Python: what people do with an encoder, under the names of the command line's verbs.

import hardpair as hp
embedding = hp.embed("runs/mine", "photos/", out="emb/")
"""

import os
from pathlib import Path
from typing import Literal

from hardpair.embeddings.embed import Dtype, embed_source
from hardpair.embeddings.embedder import open_embedder
from hardpair.embeddings.embedding import Embedding, open_embedding
from hardpair.embeddings.formats import Format, require_format, write_format
from hardpair.embeddings.source import open_source
from hardpair.errors import UserError, shown
from hardpair.machine import prepare_to_compute
from hardpair.precision import for_evaluation
from hardpair.train.parallel import pick_device, process_group

Folder = str | os.PathLike[str]


def embed(
    encoder: Folder,
    images: Folder,
    *,
    out: Folder,
    image_size: int | None = None,
    dtype: Dtype = "float32",
    format: Format | Literal[""] = "",  # noqa: A002 - as the command line has it
    name: str = "",
    precision: Literal["float32", "bfloat16", "auto"] = "float32",
    data_root: Folder = "data",
    device: str = "auto",
    threads: int = 0,
) -> Embedding:
    """Vectors of all images under an encoder, in the folder ``out``; a call that was stopped is gone on with.

    Files that cannot be read are left out, and listed in ``broken.txt``.

    Args:
        encoder: a run, ``"timm:NAME"``, a file of weights, or a folder that `hardpair export` wrote.
        images: a folder, a text file with a name per line, a packed set, "sample" or "cifar10".
        out: folder of the embedding.
        image_size: pixels that the encoder sees; as in training when not given.
        dtype: of the stored vectors; float16 takes half the disk.
        format: also write the embedding as "parquet" or "csv", for other programs.
        name: for a file of weights: the encoder it belongs to, if the file does not show it.
        precision: of the encoder's arithmetic; "auto" takes bfloat16 where the hardware has it.
        data_root: where downloaded sets are kept.
        device: auto, cpu, cuda, cuda:1 …
        threads: of the CPU; 0 leaves the choice to torch.
    """
    if dtype not in ("float32", "float16"):
        raise UserError(f"dtype: must be float32 or float16, not {shown(dtype)}")
    if format not in ("", "parquet", "csv"):
        raise UserError(f"format: must be parquet or csv, not {shown(format)}")
    if format:
        require_format(format)
    prepare_to_compute(threads)
    place = pick_device(device)
    with process_group(place):
        embedder = open_embedder(
            encoder, device=place, name=name, image_size=image_size, precision=for_evaluation(precision, place)
        )
        source = open_source(os.fspath(images), size=embedder.square, least=embedder.shown, data_root=Path(data_root))
        made = embed_source(embedder, source, Path(out), dtype=dtype)
    if format:
        write_format(made, format)
    return made


__all__ = ["Embedding", "embed", "open_embedding"]
