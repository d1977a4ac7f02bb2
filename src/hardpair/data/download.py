"""Fetch one archive and unpack it, trusting neither the network nor the archive."""

import gzip
import hashlib
import http.client
import shutil
import tarfile
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

from hardpair.data.progress import progress
from hardpair.errors import UserError, printable

CHUNK = 1 << 20


def fetch(url: str, target: Path, sha256: str, size: int) -> None:
    """Download `url` to `target`; the name appears only once size and hash are right."""
    if urlsplit(url).scheme not in {"http", "https", "file"}:
        raise UserError(f"{url}: only http, https and file addresses can be downloaded")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _part_of(target) as part:
            with urlopen(url, timeout=30) as response, part.open("wb") as out:  # noqa: S310 (scheme checked above)
                _copy(response, out, size, url)
            check_file(part, sha256, size, name=url)
            part.replace(target)
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()  # it is the open answer of the server as well
        advice = f"download it by other means and save it as {target}"
        raise UserError(f"{url}: cannot be downloaded ({printable(str(error))}); {advice}") from error


def check_file(path: Path, sha256: str, size: int, *, name: str) -> None:
    """Refuse a file that is not, bit for bit, the one we expect; `name` is what the message calls it."""
    found = path.stat().st_size
    if found != size:
        raise UserError(f"{name}: {found:,} bytes where {size:,} are expected; download it again")
    with path.open("rb") as stream:
        if hashlib.file_digest(stream, "sha256").hexdigest() != sha256:
            raise UserError(f"{name}: its sha256 is not {sha256}; download it again")


def unpack(archive: Path, folder: Path, limits: Mapping[str, int]) -> None:
    """Write the members named in `limits` (member name → most bytes it may have) into `folder`, all or nothing.

    Files are named after our own table and written one by one, so links, '..' and absolute names in the archive
    have nothing to act on; and no more than the sum of the limits is ever decompressed.
    """
    try:
        with _part_of(folder) as part, _Limited(archive, sum(limits.values()) + CHUNK) as stream:
            part.mkdir(parents=True)
            names = _write_members(stream, part, limits)
            if missing := sorted(set(limits) - names):
                raise ValueError(f"it has no {missing[0]}")
            if not folder.exists():  # another process may have been faster
                part.rename(folder)
    except (OSError, EOFError, ValueError, RecursionError, tarfile.TarError, zlib.error) as error:
        raise UserError(f"{archive}: cannot be unpacked ({printable(str(error))}); download it again") from error


def _copy(response: IO[bytes], out: IO[bytes], size: int, url: str) -> None:
    with progress(f"downloading {url}", size) as advance:
        left = size + 1  # one more than expected is enough to see that it is wrong
        while left and (block := response.read(min(CHUNK, left))):
            out.write(block)
            left -= len(block)
            advance(len(block))


def _write_members(stream: gzip.GzipFile, part: Path, limits: Mapping[str, int]) -> set[str]:
    names: set[str] = set()
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        for member in tar:
            if member.name not in limits:
                continue
            if not member.isreg() or not 0 <= member.size <= limits[member.name]:
                raise ValueError(f"{member.name} is not the plain file it should be")
            source = tar.extractfile(member)
            assert source is not None
            with (part / Path(member.name).name).open("xb") as out:  # x: nothing comes twice
                shutil.copyfileobj(source, out, CHUNK)
            names.add(member.name)
    return names


class _Limited(gzip.GzipFile):
    """A stream that ends in an error rather than in a full disk or a full memory."""

    def __init__(self, path: Path, limit: int) -> None:
        super().__init__(path, "rb")
        self.left = limit
        self.ends = 0

    def read(self, size: int | None = -1) -> bytes:
        block = super().read(self.left + 1 if size is None or size < 0 else min(size, self.left + 1))
        self.left -= len(block)
        self.ends += not block
        if self.left < 0:
            raise ValueError("it holds more than it should")
        if self.ends > 3:  # tarfile goes on reading nothing until it has read as much as a header claims
            raise ValueError("it ends too early")
        return block


@contextmanager
def _part_of(target: Path) -> Iterator[Path]:
    """A temporary name beside the target, gone afterwards whatever happens."""
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        yield part
    finally:
        remove: Callable[[Path], None] = shutil.rmtree if part.is_dir() else lambda path: path.unlink(missing_ok=True)
        remove(part)
