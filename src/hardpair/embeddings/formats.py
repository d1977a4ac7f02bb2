"""An embedding for other programs: parquet (embedding-atlas, pandas, DuckDB) and CSV."""

import csv
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hardpair.embeddings.embedding import Embedding
from hardpair.embeddings.projection import Projection, read_projection
from hardpair.errors import UserError
from hardpair.files import replacing

Format = Literal["parquet", "csv"]
FORMATS: tuple[Format, ...] = ("parquet", "csv")
AT_ONCE = 4096  # rows
FACTS = 300  # bytes of all but the vector, with a long name


def write_format(embedding: Embedding, kind: Format) -> Path:
    """Write `embedding.parquet` or `embedding.csv` into its folder; with x, y and cluster once there is a map."""
    target = embedding.folder / f"embedding.{kind}"
    with replacing(target) as temporary:
        (_write_parquet if kind == "parquet" else _write_csv)(embedding, read_projection(embedding), temporary)
    return target


def require_format(kind: Format) -> None:
    """Before any work: refuse one whose library is not there."""
    if kind == "parquet":
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError as error:
            raise UserError("format: parquet needs pyarrow; pip install 'hardpair[parquet]'") from error


def bytes_a_row(kind: Format | Literal[""], width: int) -> int:
    """About as many as a row takes at most; a number in a CSV has up to nine digits, a sign and an exponent."""
    return {"": 0, "parquet": 4 * width + FACTS, "csv": 14 * width + FACTS}[kind]


def _columns(embedding: Embedding, start: int, places: Projection | None) -> dict[str, list[Any]]:
    """Of the rows from start on, all but the vectors; names that are not text get a mark for what is not."""
    rows = range(start, min(start + AT_ONCE, len(embedding)))
    columns: dict[str, list[Any]] = {
        "filename": [embedding.files[row].encode("utf-8", "replace").decode() for row in rows],
        "label": [embedding.label(row) for row in rows],
        "split": [embedding.splits[row] or None for row in rows],
        "width": embedding.sides[rows.start : rows.stop, 0].tolist(),
        "height": embedding.sides[rows.start : rows.stop, 1].tolist(),
        "sha256": [embedding.sha256[row] for row in rows],
    }
    if places is not None:
        columns |= dict(zip("xy", places.points[rows.start : rows.stop].T.tolist(), strict=True))
        columns["cluster"] = places.clusters[rows.start : rows.stop].tolist()
    return columns


def _write_parquet(embedding: Embedding, places: Projection | None, target: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    plain = {"filename": pa.string(), "label": pa.string(), "split": pa.string()}
    whole = {"width": pa.int32(), "height": pa.int32()}
    mapped = {"x": pa.float32(), "y": pa.float32(), "cluster": pa.int32()} if places is not None else {}
    facts = {**plain, **whole, "sha256": pa.string(), **mapped}
    schema = pa.schema([*facts.items(), ("vector", pa.list_(pa.float32()))])
    with pq.ParquetWriter(target, schema) as writer:
        for start in range(0, len(embedding), AT_ONCE):
            vectors = np.ascontiguousarray(embedding.vectors[start : start + AT_ONCE], np.float32)  # as all can read
            offsets = np.arange(len(vectors) + 1, dtype=np.int32) * vectors.shape[1]
            packed = pa.ListArray.from_arrays(offsets, pa.array(vectors.reshape(-1)))
            arrays = [
                pa.array(values, schema.field(name).type) for name, values in _columns(embedding, start, places).items()
            ]
            writer.write_table(pa.Table.from_arrays([*arrays, packed], schema=schema))


def _write_csv(embedding: Embedding, places: Projection | None, target: Path) -> None:
    """One column per number, v0, v1 …, in as many digits as bring back the same number."""
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        names = list(_columns(embedding, 0, places))
        writer.writerow([*names, *(f"v{place}" for place in range(embedding.vectors.shape[1]))])
        for start in range(0, len(embedding), AT_ONCE):
            facts = zip(*_columns(embedding, start, places).values(), strict=True)
            for known, vector in zip(facts, embedding.vectors[start : start + AT_ONCE], strict=True):
                writer.writerow([*known, *vector])  # numpy writes the shortest text of each number
