"""An embedding that is being made: a file per part, so that a stop loses the part in hand and nothing else.

A file holds a line of JSON, then the lines of `images.jsonl`, then the vectors. It appears whole, under its name.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from hardpair import distributed
from hardpair.embeddings.embedding import AGAIN, BROKEN, IMAGES, VECTORS
from hardpair.errors import UserError
from hardpair.files import parse_json, read_json, write_atomically

FOLDER, BEGUN, LOCK = "parts", "begun.json", "lock"
PART = 2048  # images that are written, and lost by a kill, together
HASH = re.compile(rb'"sha256": "([0-9a-f]{64})", "width"')  # of a picture; within a name, quotes would be escaped
LONGEST_LINE = 1 << 26  # bytes of the first line, which has the reasons of all broken files


@dataclass(frozen=True)
class Done:
    """What the first line of a part says."""

    images: int
    lines: int  # bytes
    sha256: str  # of all that follows
    broken: list[str]


@dataclass(frozen=True)
class Joined:
    """What became of all parts together."""

    count: int
    broken: int
    digest: str  # of the pictures
    images_sha256: str
    vectors_sha256: str


class Parts:
    """Those of one embedding, which lie in a folder inside its own."""

    def __init__(self, out: Path, count: int, width: int, dtype: str) -> None:
        self.out, self.folder, self.count, self.width = out, out / FOLDER, count, width
        self.dtype = np.dtype(dtype)

    def starts(self) -> range:
        """First image of each part."""
        return range(0, self.count, PART)

    def missing(self) -> list[int]:
        """Of those that this rank computes, the ones that are not there, or not whole."""
        own = self.starts()[distributed.rank() :: distributed.world_size()]
        return [start for start in own if not self.is_whole(start)]

    def begin(self, plan: str) -> None:
        """Go on only with what was begun as it is now."""
        file = self.folder / BEGUN
        try:
            if file.exists() and read_json(file) != {"plan": plan}:
                what = "another encoder, other images or other options, or the images have changed since"
                raise UserError(f"{self.out}: was begun with {what}; choose another folder, or delete it")
        except (OSError, ValueError) as error:
            raise UserError(f"{file}: cannot be read ({error}); delete {self.out} and {AGAIN}") from error
        write_atomically(file, json.dumps({"plan": plan}).encode())

    def write(self, start: int, vectors: NDArray[Any], lines: Sequence[bytes], broken: list[str]) -> None:
        """One part, at once."""
        text, numbers = b"".join(lines), np.ascontiguousarray(vectors, self.dtype).tobytes()
        sha = hashlib.sha256(text)
        sha.update(numbers)
        done = {"images": len(lines), "lines": len(text), "sha256": sha.hexdigest(), "broken": broken}
        write_atomically(self._file(start), b"".join([json.dumps(done).encode(), b"\n", text, numbers]))

    def _file(self, start: int) -> Path:
        return self.folder / f"{start:012d}.part"

    def is_whole(self, start: int) -> bool:
        """Whether it is there in full, by its length."""
        try:
            with self._file(start).open("rb") as file:
                done = self._read_head(file)
                return os.fstat(file.fileno()).st_size == file.tell() + done.lines + self._bytes(done.images)
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def _read_head(self, file: IO[bytes]) -> Done:
        return Done(**parse_json(file.readline(LONGEST_LINE).decode()))

    def _bytes(self, images: int) -> int:
        return images * self.width * self.dtype.itemsize

    def _read(self, start: int) -> tuple[Done, bytes, bytes]:
        """Head, lines and vectors; a part that is not what was written is removed, so that it is computed again."""
        file = self._file(start)
        try:
            with file.open("rb") as stream:
                done, body = self._read_head(stream), stream.read()
            if hashlib.sha256(body).hexdigest() != done.sha256:
                raise ValueError("it is not what was written, by its hash")
        except (OSError, ValueError, KeyError, TypeError) as error:
            file.unlink(missing_ok=True)
            again = "the same command computes it again, and nothing else"
            raise UserError(f"{file}: cannot be read ({str(error)[:120]}); {again}") from error
        return done, body[: done.lines], body[done.lines :]

    def _heads(self) -> Iterator[Done]:
        for start in self.starts():
            with self._file(start).open("rb") as file:
                yield self._read_head(file)

    def join(self) -> Joined:
        """All parts, one after the other, as the files of an embedding; no more than one is in memory."""
        if not all(map(self.is_whole, self.starts())):
            raise UserError(f"{self.folder}: parts are missing; the same command goes on")
        count = sum(done.images for done in self._heads())
        self._write_broken()
        if not count:
            raise UserError(f"{self.out / BROKEN}: says why none of {self.count:,} files can be used")
        digest, lines, vectors = hashlib.sha256(), hashlib.sha256(), hashlib.sha256()
        drafts = [self.folder / f"{name}.tmp" for name in (IMAGES, VECTORS)]
        with drafts[0].open("wb") as images_file, drafts[1].open("wb") as vectors_file:
            header = {"descr": npy.dtype_to_descr(self.dtype), "fortran_order": False, "shape": (count, self.width)}
            npy.write_array_header_1_0(_Hashing(vectors_file, vectors), header)
            for start in self.starts():
                _, text, numbers = self._read(start)
                _Hashing(images_file, lines).write(text)
                _Hashing(vectors_file, vectors).write(numbers)
                digest.update(b"".join(HASH.findall(text)))
            for file in (images_file, vectors_file):
                file.flush()
                os.fsync(file.fileno())
        for draft, name in zip(drafts, (IMAGES, VECTORS), strict=True):
            draft.replace(self.out / name)
        broken = sum(len(done.broken) for done in self._heads())
        return Joined(count, broken, digest.hexdigest(), lines.hexdigest(), vectors.hexdigest())

    def _write_broken(self) -> None:
        draft = self.folder / f"{BROKEN}.tmp"
        with draft.open("w", encoding="utf-8") as file:
            for done in self._heads():
                file.writelines(f"{line}\n" for line in done.broken)
        draft.replace(self.out / BROKEN)

    def remove(self) -> None:
        """They go last, so that a kill costs nothing."""
        shutil.rmtree(self.folder, ignore_errors=True)


class _Hashing:
    """Writes to a file and to a hash."""

    def __init__(self, file: IO[bytes], sha: Any) -> None:
        self.file, self.sha = file, sha

    def write(self, content: bytes) -> int:
        self.sha.update(content)
        return self.file.write(content)


@contextmanager
def sole_writer(out: Path) -> Iterator[None]:
    """Keep other processes from embedding into the same folder; the lock dies with its process.

    Rank 0 holds it for all ranks.
    """
    if not distributed.is_main():
        yield
        return
    (out / FOLDER).mkdir(parents=True, exist_ok=True)
    with (out / FOLDER / LOCK).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UserError(
                f"{out}: another process embeds into this folder; wait for it, or choose another one"
            ) from error
        yield
