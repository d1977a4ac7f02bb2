"""The folder of an embedding: a vector and a line of facts per image, and what made them.

`vectors.npy` is float32 or float16 (N, D). `images.jsonl` has a line per row: filename, label and split if there are
any, sha256, width, height; a map adds x, y and cluster in `map.npz`. `manifest.json` is written last and says which
encoder made the vectors, how it saw the images, and the hash of the two files. Anybody may have written these files.
"""

import hashlib
import json
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, get_args

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from hardpair.data.images import map_file
from hardpair.data.names import Names, Repeated
from hardpair.errors import UserError, printable, shown
from hardpair.files import parse_json, read_json
from hardpair.precision import Precision

VECTORS, IMAGES, MANIFEST, BROKEN = "vectors.npy", "images.jsonl", "manifest.json", "broken.txt"
WHAT, VERSION = "embedding by hardpair", 1
LONGEST_LINE = 20_000  # bytes of a line; systems allow a path 4,096
AT_ONCE = 65_536  # rows looked at at a time
AGAIN = "embed the images again"
DTYPES = ("float32", "float16")
NO_LABEL = "\0"  # no name of a folder has a zero byte
HASHES = {"vectors_sha256": str, "images_sha256": str}
PICTURES = {"source": str, "root": str, "kind": str, "count": int, "broken": int}
ENCODER = {
    "source": str,
    "fingerprint": str,
    "num_features": int,
    "settings": dict,
    "square": int,
    "shown": int,
    "precision": str,
}
"""What a manifest says of its files, of the pictures and, as a head does, of the encoder."""


@dataclass(frozen=True)
class Embedding:
    """The vectors of images, row by row, and what is known of each image."""

    folder: Path
    vectors: NDArray[Any]  # (N, D) float32 or float16, memory mapped
    files: Sequence[str]  # (N,) names below the folder of the images
    classes: tuple[str, ...]  # label k is classes[k]; empty without labels
    labels: NDArray[np.int64]  # (N,) -1 where there is none
    splits: Sequence[str]  # (N,) "train", "test", or "" where the images have no splits
    sha256: Sequence[str]  # (N,) of the file, or of the pixels where there is none
    sides: NDArray[np.int32]  # (N, 2) width and height of the pictures
    manifest: Mapping[str, Any]

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def encoder(self) -> str:
        """Fingerprint of the encoder."""
        return str(self.manifest["encoder"]["fingerprint"])

    @property
    def root(self) -> Path:
        """The folder that the names of the files are relative to."""
        return Path(self.manifest["images"]["root"])

    def label(self, row: int) -> str | None:
        """The class of an image, if it is known."""
        number = int(self.labels[row])
        return None if number < 0 else self.classes[number]

    def unit_vectors(self, rows: slice | NDArray[Any] = slice(None)) -> NDArray[np.float32]:
        """Vectors of length one, as float32; a vector of zeros stays one."""
        vectors = np.asarray(self.vectors[rows], dtype=np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: NDArray[np.float32] = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
        return unit

    def rows_of(self, names: Iterable[str]) -> dict[str, int]:
        """Row by name of the file, for those of the names that are there."""
        wanted = set(names)
        return {name: row for row, name in enumerate(self.files) if name in wanted}

    def require_same_encoder(self, other: "Embedding") -> None:
        """Refuse to compare vectors of two encoders: their axes mean different things."""
        if self.encoder != other.encoder or self.vectors.shape[1] != other.vectors.shape[1]:
            theirs, ours = (e.manifest["encoder"]["source"] for e in (other, self))
            raise UserError(
                f"{other.folder}: made by another encoder ({shown(theirs)}) than {self.folder} ({shown(ours)}); "
                "embed both with one"
            )


def open_embedding(folder: Path | str) -> Embedding:
    """An embedding that `hardpair embed` wrote to its end. Every value is finite, every line is as it was written."""
    folder = Path(folder)
    manifest = read_manifest(folder)
    count, width = manifest["images"]["count"], manifest["encoder"]["num_features"]
    vectors = _map_vectors(folder / VECTORS, (count, width), manifest["dtype"], manifest["vectors_sha256"])
    columns = _read_columns(folder / IMAGES, count, manifest["images_sha256"])
    classes, labels = _number_classes(columns.labels)
    return Embedding(
        folder, vectors, columns.files, classes, labels, columns.splits, columns.sha256, columns.sides(), manifest
    )


def read_manifest(folder: Path) -> dict[str, Any]:
    """What made the vectors; UserError unless the embedding is there, and whole."""
    file = folder / MANIFEST
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; hardpair embed makes one")
    if not file.is_file():
        begun = (folder / "parts").is_dir()
        why = (
            "is not finished; the same hardpair embed command goes on"
            if begun
            else "holds no embedding; hardpair embed makes one of pictures"
        )
        raise UserError(f"{folder}: {why}")
    try:
        return _checked(read_json(file))
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise UserError(f"{file}: cannot be read ({reason[:200]}); {AGAIN}") from error


def _checked(content: Any) -> dict[str, Any]:
    if content["what"] != WHAT or content["version"] != VERSION:
        raise ValueError(f"it is no {WHAT} of version {VERSION}")
    _require_kinds(content, HASHES)
    _require_kinds(content["images"], PICTURES)
    if content["images"]["count"] < 1 or content["dtype"] not in DTYPES:
        raise ValueError("its count or its dtype are out of range")
    return {**content, "encoder": checked_encoder(content["encoder"])}


def checked_encoder(content: Any) -> dict[str, Any]:
    """What a file says of an encoder; ValueError, TypeError or KeyError unless all of it makes sense."""
    _require_kinds(content, ENCODER)
    if min(content["num_features"], content["square"], content["shown"]) < 1:
        raise ValueError("the sizes of its encoder are out of range")
    if not isinstance(content["settings"].get("name"), str):
        raise TypeError("the settings of its encoder have no name")
    if content["precision"] not in get_args(Precision):
        raise ValueError(f"the precision of its encoder cannot be {shown(content['precision'])}")
    return {name: content[name] for name in ENCODER}


def _require_kinds(content: Any, kinds: Mapping[str, type]) -> None:
    if not isinstance(content, dict):
        raise TypeError(f"{shown(content)} is no table of {', '.join(kinds)}")
    for name, kind in kinds.items():
        if type(content[name]) is not kind:
            raise TypeError(f"{name} cannot be {shown(content[name])}")


def _map_vectors(file: Path, shape: tuple[int, int], dtype: str, sha256: str) -> NDArray[Any]:
    kind = np.float32 if dtype == "float32" else np.float16
    try:
        _require_plain(file)
        with file.open("rb") as stream:
            npy.read_magic(stream)
            found, fortran, stored = npy.read_array_header_1_0(stream)
            offset = stream.tell()
            length = offset + shape[0] * shape[1] * np.dtype(kind).itemsize
            if found != shape or fortran or stored != np.dtype(kind) or file.stat().st_size != length:
                raise ValueError(f"not {shape[0]:,} vectors of {shape[1]} in {dtype}")
            if _hash_of_finite(stream, kind, shape) != sha256:
                raise ValueError("it is not what was written, by its hash")
        return map_file(file, shape, kind, offset=offset)
    except (OSError, ValueError) as error:
        raise UserError(f"{file}: cannot be read ({str(error)[:120]}); {AGAIN}") from error


def _require_plain(file: Path) -> None:
    if not file.is_file():  # opening a pipe would wait for ever
        raise ValueError("there is no plain file of that name")


def _hash_of_finite(stream: BinaryIO, kind: type[Any], shape: tuple[int, int]) -> str:
    """Hash of the file whose header was just read; ValueError unless all its values are finite.

    They are read once, in passing: of a map the pages would stay, and count as memory of this process.
    """
    header = stream.tell()
    stream.seek(0)
    sha = hashlib.sha256(stream.read(header))
    for start in range(0, shape[0], AT_ONCE):
        rows = min(AT_ONCE, shape[0] - start)
        values = np.fromfile(stream, kind, rows * shape[1])
        if not np.isfinite(values).all():
            row = start + int(np.flatnonzero(~np.isfinite(values))[0]) // shape[1]
            raise ValueError(f"row {row:,} holds values that are not finite")
        sha.update(values.data)
    return sha.hexdigest()


def read_lines(file: Path) -> Iterator[dict[str, Any]]:
    """The facts of one image after the other."""
    with file.open("rb") as stream:
        while line := stream.readline(LONGEST_LINE):
            yield parse_json(line.decode())


class _Columns:
    """What the lines say, column by column."""

    def __init__(self) -> None:
        self.files, self.labels, self.splits, self.sha256 = Names(), Repeated(), Repeated(), Names()
        self._sides = array("i")

    def append(self, facts: Mapping[str, Any]) -> None:
        """One more line."""
        self.files.append(str(facts["filename"]))
        self.labels.append(NO_LABEL if facts.get("label") is None else str(facts["label"]))
        self.splits.append(str(facts.get("split", "")))
        self.sha256.append(str(facts["sha256"]))
        self._sides.extend((int(facts["width"]), int(facts["height"])))

    def sides(self) -> NDArray[np.int32]:
        """Width and height, (N, 2)."""
        return np.frombuffer(self._sides, np.int32).reshape(-1, 2)


def _read_columns(file: Path, count: int, sha256: str) -> _Columns:
    columns = _Columns()
    try:
        _require_plain(file)
        with file.open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != sha256:
                raise ValueError("it is not what was written, by its hash")
        for facts in read_lines(file):
            columns.append(facts)
        if len(columns.files) != count:
            raise ValueError(f"{len(columns.files):,} lines for {count:,} images")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise UserError(f"{printable(str(file))}: cannot be read ({str(error)[:120]}); {AGAIN}") from error
    return columns


def _number_classes(labels: Repeated) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """The names of the classes, sorted, and which of them each image is of; -1 where it has no label."""
    classes = tuple(sorted(labels.numbers.keys() - {NO_LABEL}))
    place = {name: number for number, name in enumerate(classes)}
    numbers = np.array([place.get(word, -1) for word in labels.numbers], dtype=np.int64)
    return classes, numbers[np.frombuffer(labels.codes, np.int32)]


def write_line(facts: Mapping[str, Any]) -> bytes:
    """A line of `images.jsonl`; names that are not text survive as JSON's escapes."""
    return json.dumps(facts).encode() + b"\n"
