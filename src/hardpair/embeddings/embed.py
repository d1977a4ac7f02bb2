"""`hardpair embed`: pictures → vectors on disk, in parts, so that a stop loses the part in hand and nothing else.

Ranks take parts in turn. What is computed together depends on neither stops nor the number of ranks, so that both leave
every bit as it is.
"""

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from hardpair import distributed
from hardpair.data.decode import files_at_once
from hardpair.data.progress import progress
from hardpair.embeddings import parts
from hardpair.embeddings.embedder import BATCH, Embedder, open_embedder
from hardpair.embeddings.embedding import MANIFEST, VERSION, WHAT, Embedding, open_embedding, read_manifest
from hardpair.embeddings.formats import Format, bytes_a_row, require_format, write_format
from hardpair.embeddings.parts import Joined, Parts, sole_writer
from hardpair.embeddings.source import Part, Source, Span, open_source, read_ahead
from hardpair.errors import UserError, printable, shown
from hardpair.files import commit, write_atomically
from hardpair.machine import prepare_to_compute
from hardpair.precision import for_evaluation
from hardpair.text import scaled
from hardpair.train.parallel import pick_device, process_group

LINE = 300  # bytes of a line of images.jsonl, for a long name
CPU = torch.device("cpu")
Dtype = Literal["float32", "float16"]
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
        with distributed.main_first():  # what has to be downloaded is so only once
            source = open_source(
                os.fspath(images), size=embedder.square, least=embedder.shown, data_root=Path(data_root)
            )
        made = embed_source(embedder, source, Path(out), dtype=dtype, format=format)
        if format and distributed.is_main():
            write_format(made, format)
    return made


def embed_source(
    embedder: Embedder,
    source: Source,
    out: Path,
    *,
    dtype: Dtype = "float32",
    format: Format | Literal[""] = "",  # noqa: A002
) -> Embedding:
    """Embed all images, or go on where an earlier call was stopped; there must be room for a file of the format too."""
    plan = {"images": source.key(), "dtype": dtype, "part": parts.PART, "encoder": embedder.facts()}
    distributed.require_equal("images and encoder", _hash(plan), device=CPU)
    _refuse_other(out)
    if not _is_finished(out, plan) or (out / parts.FOLDER).exists():
        with distributed.patient_barrier() as wait, sole_writer(out):
            wait()  # whatever is there will not change any more
            work = Parts(out, len(source), embedder.encoder.num_features, dtype)
            if not _is_finished(out, plan):
                _require_room(work, format)
                work.begin(_hash(plan))
                _embed_parts(embedder, source, work)
                wait()
                if distributed.is_main():
                    _write_manifest(out, source, plan, work.join())
            wait()
            if distributed.is_main():
                work.remove()
    return open_embedding(out)


def _refuse_other(out: Path) -> None:
    """A folder that holds something else, before anything is written."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out}: is a file; give a folder")
    ours = (out / MANIFEST).exists() or (out / parts.FOLDER).exists()
    if out.exists() and not ours and any(out.iterdir()):
        raise UserError(f"{out}: is not empty, and holds no embedding; choose another folder")


def _is_finished(out: Path, plan: Mapping[str, Any]) -> bool:
    """Whether it is there, on all ranks; another embedding is refused."""
    there = (out / MANIFEST).exists()
    if there and read_manifest(out).get("plan") != _hash(plan):
        what = "of other images, another encoder or other options, or the images have changed since"
        raise UserError(f"{out}: holds another embedding ({what}); choose another folder, or delete it")
    [missing] = distributed.any_rank(not there, device=CPU)
    return not missing


def _hash(plan: Mapping[str, Any]) -> str:
    """Of what must be the same for a stopped embedding to be gone on with."""
    facts = {**plan, "encoder": {name: value for name, value in plan["encoder"].items() if name != "source"}}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _require_room(work: Parts, kind: Format | Literal[""]) -> None:
    """Parts and what they are joined to are on the disk together; then another format takes the place of the parts."""
    row = work.width * work.dtype.itemsize + LINE
    parts_to_come = row * min(work.count, sum(not work.is_whole(start) for start in work.starts()) * parts.PART)
    needed = row * work.count + max(parts_to_come, bytes_a_row(kind, work.width) * work.count)
    free = shutil.disk_usage(work.folder).free
    if needed > free:
        raise UserError(
            f"{work.out}: needs {scaled(needed, 'B')} where the disk has {scaled(free, 'B')} free; make room, choose "
            "another disk, or give --dtype float16"
        )


def _spans(source: Source, start: int, size: int) -> Iterator[Span]:
    """What is computed together of the part that begins there."""
    end = min(start + parts.PART, len(source))
    step = min(BATCH, files_at_once(size))
    return ((first, min(first + step, end)) for first in range(start, end, step))


def _embed_parts(embedder: Embedder, source: Source, work: Parts) -> None:
    """The parts of this rank that are missing."""
    missing, size = work.missing(), embedder.square
    spans = (span for start in missing for span in _spans(source, start, size))
    total = min(len(missing) * parts.PART, len(source))
    with progress(f"embedding {source.name}", total) as advance, closing(read_ahead(source, spans)) as batches:
        for start in missing:
            vectors: list[NDArray[Any]] = []
            lines: list[bytes] = []
            broken: list[str] = []
            for (first, end), batch in zip(_spans(source, start, size), batches, strict=False):
                vectors.append(_vectors(embedder, batch, work.dtype))
                lines += batch.lines
                broken += batch.broken
                advance(end - first)
            work.write(start, np.concatenate(vectors), lines, broken)


def _vectors(embedder: Embedder, batch: Part, dtype: np.dtype[Any]) -> NDArray[Any]:
    """All of them finite, also in the type they are stored in."""
    computed = embedder.vectors(batch.pixels).numpy()
    with np.errstate(over="ignore"):
        vectors = computed.astype(dtype, copy=False)
    if np.isfinite(vectors).all():
        return vectors
    row = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
    name = printable(batch.facts[row]["filename"])
    if np.isfinite(computed).all():
        raise UserError(f"dtype: float16 cannot hold the values for {name}; give float32")
    raise UserError(f"{embedder.source}: gives values that are not finite for {name}; is it trained?")


def _write_manifest(out: Path, source: Source, plan: Mapping[str, Any], joined: Joined) -> None:
    """Last of all: from here on there is an embedding."""
    facts = {"source": source.name, "root": source.root, "kind": source.kind}
    manifest = {
        "what": WHAT,
        "version": VERSION,
        "dtype": plan["dtype"],
        "encoder": plan["encoder"],
        "images": {**facts, "count": joined.count, "broken": joined.broken, "digest": joined.digest},
        "vectors_sha256": joined.vectors_sha256,
        "images_sha256": joined.images_sha256,
        "plan": _hash(plan),
        "made": _made(),
    }
    write_atomically(out / MANIFEST, json.dumps(manifest, indent=1).encode())


def _made() -> dict[str, str]:
    from hardpair import __version__

    versions = {"hardpair": __version__, "commit": commit() or "unknown", "torch": torch.__version__}
    when = datetime.now(UTC).isoformat(timespec="seconds")
    return {**versions, "numpy": np.__version__, "python": platform.python_version(), "date": when}
