"""`hardpair embed`: pictures → vectors on disk, in parts, so that a stop loses the part in hand and nothing else.

Ranks take parts in turn. A part's batches are its own, so that neither stops nor the number of ranks change a bit.
"""

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import torch
from numpy.lib import format as npy

from hardpair import distributed
from hardpair.data.progress import progress
from hardpair.embeddings.embedder import Embedder, open_embedder
from hardpair.embeddings.embedding import (
    AGAIN,
    BROKEN,
    IMAGES,
    MANIFEST,
    VECTORS,
    VERSION,
    WHAT,
    Embedding,
    open_embedding,
    read_manifest,
    write_line,
)
from hardpair.embeddings.formats import Format, require_format, write_format
from hardpair.embeddings.source import Part, Source, open_source
from hardpair.errors import UserError, shown
from hardpair.files import commit, read_json, write_atomically
from hardpair.machine import prepare_to_compute
from hardpair.precision import for_evaluation
from hardpair.train.parallel import pick_device, process_group

PARTS, BEGUN = "parts", "begun.json"
PART = 1024  # images that are embedded, and lost by a kill, together
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
        source = open_source(os.fspath(images), size=embedder.square, least=embedder.shown, data_root=Path(data_root))
        made = embed_source(embedder, source, Path(out), dtype=dtype)
    if format:
        write_format(made, format)
    return made


def embed_source(embedder: Embedder, source: Source, out: Path, *, dtype: Dtype = "float32") -> Embedding:
    """Embed all images, or go on where an earlier call was stopped."""
    plan = _plan(embedder, source, dtype)
    _begin(out, plan)
    if not (out / MANIFEST).exists():
        _embed_parts(embedder, source, out, dtype)
        distributed.barrier()
        if distributed.is_main():
            _publish(out, source, plan, dtype)
    distributed.barrier()
    return open_embedding(out)


def _plan(embedder: Embedder, source: Source, dtype: Dtype) -> dict[str, Any]:
    """What must be the same for a stopped embedding to be gone on with."""
    return {"images": source.key(), "dtype": dtype, "part": PART, "encoder": embedder.facts()}


def _begin(out: Path, plan: Mapping[str, Any]) -> None:
    """Make the folder, unless it holds something else."""
    _refuse_other(out, plan)
    distributed.barrier()  # all have looked before one writes
    if distributed.is_main() and not (out / MANIFEST).exists():
        (out / PARTS).mkdir(parents=True, exist_ok=True)
        write_atomically(out / BEGUN, json.dumps({"plan": _hash(plan)}).encode())
    distributed.barrier()


def _refuse_other(out: Path, plan: Mapping[str, Any]) -> None:
    if out.exists() and not out.is_dir():
        raise UserError(f"{out}: is a file; give a folder")
    if (out / MANIFEST).exists():
        if read_manifest(out).get("plan") != _hash(plan):
            raise UserError(f"{out}: holds another embedding; choose another folder, or delete it")
    elif (out / BEGUN).exists():
        _require_same(out, plan)
    elif out.exists() and any(out.iterdir()):
        raise UserError(f"{out}: is not empty, and holds no embedding; choose another folder")


def _require_same(out: Path, plan: Mapping[str, Any]) -> None:
    try:
        known = read_json(out / BEGUN)
    except (OSError, ValueError) as error:
        raise UserError(f"{out / BEGUN}: cannot be read ({error}); delete {out} and {AGAIN}") from error
    if known != {"plan": _hash(plan)}:
        what = "another encoder, other images or other options"
        raise UserError(f"{out}: was begun with {what}; choose another folder, or delete it")


def _hash(plan: Mapping[str, Any]) -> str:
    facts = {**plan, "encoder": {name: value for name, value in plan["encoder"].items() if name != "source"}}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _part_files(out: Path, start: int) -> tuple[Path, Path]:
    """Vectors and facts of a part; the second is written last."""
    return out / PARTS / f"{start:012d}.npy", out / PARTS / f"{start:012d}.jsonl"


def _embed_parts(embedder: Embedder, source: Source, out: Path, dtype: Dtype) -> None:
    """The parts of this rank that are missing; the next one is decoded while the encoder works on one."""
    starts = list(range(0, len(source), PART))[distributed.rank() :: distributed.world_size()]
    missing = [start for start in starts if not _part_files(out, start)[1].exists()]
    with progress(f"embedding {source.name}", len(missing) * PART) as advance:
        for start, part in _decoded(source, missing):
            vectors = embedder.vectors(part.pixels).numpy()
            if not np.isfinite(vectors).all():
                row = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
                name = part.facts[row]["filename"]
                raise UserError(f"{embedder.source}: gives values that are not finite for {name}; is it trained?")
            _write_part(out, start, vectors.astype(dtype), part)
            advance(PART)


def _decoded(source: Source, starts: list[int]) -> Iterator[tuple[int, Part]]:
    with ThreadPoolExecutor(1) as ahead:
        waiting = [ahead.submit(source.part, start, start + PART) for start in starts[:1]]
        for place, start in enumerate(starts):
            part = waiting.pop().result()
            if place + 1 < len(starts):
                waiting.append(ahead.submit(source.part, starts[place + 1], starts[place + 1] + PART))
            yield start, part


def _write_part(out: Path, start: int, vectors: np.ndarray[Any, Any], part: Part) -> None:
    values, facts = _part_files(out, start)
    write_atomically(values, np.ascontiguousarray(vectors).tobytes())
    content = [json.dumps({"broken": part.broken}).encode() + b"\n", *(write_line(line) for line in part.facts)]
    write_atomically(facts, b"".join(content))


def _publish(out: Path, source: Source, plan: Mapping[str, Any], dtype: Dtype) -> None:
    """The parts, one after the other, as two files; then the manifest. Parts go last, so that a kill costs nothing."""
    starts = range(0, len(source), PART)
    images = hashlib.sha256()
    count, broken, digest = 0, [], hashlib.sha256()
    with (out / f".{IMAGES}.tmp").open("wb") as lines:
        for start in starts:
            first, *rest = _part_files(out, start)[1].read_bytes().splitlines(keepends=True)
            broken += json.loads(first)["broken"]
            count += len(rest)
            for line in rest:
                lines.write(line)
                images.update(line)
                digest.update(json.loads(line)["sha256"].encode())
        _to_disk(lines)
    write_atomically(out / BROKEN, "".join(f"{line}\n" for line in broken).encode())
    if not count:
        raise UserError(f"{source.name}: none of {len(source):,} files can be used; {out / BROKEN} says why")
    features = plan["encoder"]["num_features"]
    vectors = _join_vectors(out, starts, (count, features), dtype)
    (out / f".{IMAGES}.tmp").replace(out / IMAGES)
    (out / f".{VECTORS}.tmp").replace(out / VECTORS)
    facts = {"source": source.name, "root": source.root, "kind": source.kind, "count": count, "broken": len(broken)}
    manifest = {
        "what": WHAT,
        "version": VERSION,
        "dtype": dtype,
        "encoder": plan["encoder"],
        "images": {**facts, "digest": digest.hexdigest()},
        "vectors_sha256": vectors,
        "images_sha256": images.hexdigest(),
        "plan": _hash(plan),
        "made": _made(),
    }
    write_atomically(out / MANIFEST, json.dumps(manifest, indent=1).encode())
    shutil.rmtree(out / PARTS)
    (out / BEGUN).unlink()


def _join_vectors(out: Path, starts: range, shape: tuple[int, int], dtype: Dtype) -> str:
    """Write them behind one header; returns the hash of the file."""
    sha = hashlib.sha256()
    with (out / f".{VECTORS}.tmp").open("w+b") as file:
        header = {"descr": npy.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(file, header)
        for start in starts:
            with _part_files(out, start)[0].open("rb") as part:
                shutil.copyfileobj(part, file, 1 << 20)
        _to_disk(file)
        file.seek(0)
        while chunk := file.read(1 << 20):
            sha.update(chunk)
    return sha.hexdigest()


def _to_disk(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _made() -> dict[str, str]:
    from hardpair import __version__

    versions = {"hardpair": __version__, "commit": commit() or "unknown", "torch": torch.__version__}
    when = datetime.now(UTC).isoformat(timespec="seconds")
    return {**versions, "numpy": np.__version__, "python": platform.python_version(), "date": when}
