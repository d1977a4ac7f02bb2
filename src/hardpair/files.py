"""Writing files so that a crash leaves the old one or the new one, reading them whoever wrote them; and our commit."""

import json
import os
import stat
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hardpair.errors import UserError

MOST_BYTES = 1_000_000  # of a JSON file that describes something; lists and pictures are given more
MOST_DEEP = 20  # containers in containers; our own files have six


def write_atomically(target: Path, content: bytes) -> None:
    """Write all or nothing."""
    with replacing(target) as temporary:
        temporary.write_bytes(content)


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A temporary name to write to, whose file replaces the target. A full disk leaves the old one as it was."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as error:
        raise UserError(f"{target}: cannot be written ({error.strerror or error})") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def append_json(target: Path, value: dict[str, Any]) -> None:
    """Add one line of JSON to a file, at once. Half a line left by a crash is ended first, to spoil no other."""
    try:
        with target.open("a+b") as file:
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                if file.read() != b"\n":
                    file.write(b"\n")
            file.write(json.dumps(value).encode() + b"\n")
    except OSError as error:
        raise UserError(f"{target}: cannot be written ({error.strerror or error})") from error


def read_json(path: Path, *, most: int = MOST_BYTES) -> Any:
    """The content of a JSON file that anybody may have written; OSError or ValueError where it is not one.

    Only plain values come out, nothing is called; a pipe is not waited for, and what is too long is not read.
    """
    return parse_json(read_plain(path, most=most).decode("utf-8"))


def read_plain(path: Path, *, most: int) -> bytes:
    """The bytes of a plain file, if they are not too many; OSError or ValueError otherwise."""
    facts = path.stat()
    if not stat.S_ISREG(facts.st_mode):  # opening a pipe would wait for ever
        raise ValueError("it is no plain file")
    if facts.st_size > most:
        raise ValueError(f"it has {facts.st_size:,} bytes, over {most:,}")
    return path.read_bytes()


def parse_json(text: str) -> Any:
    """The value that a JSON text stands for; ValueError also where it is nested deeper than any file of ours."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if text.count("[") + text.count("{") > MOST_DEEP and _depth_beyond(value, MOST_DEEP):
        raise ValueError("it is nested too deeply")
    return value


def _depth_beyond(value: Any, limit: int) -> bool:
    """Whether containers lie in each other deeper than that; without recursion, since that is what could fail."""
    level = [value]
    for _ in range(limit):
        level = [inner for outer in level for inner in _inside(outer)]
    return any(isinstance(inner, dict | list) for inner in level)


def _inside(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def commit() -> str | None:
    """The git commit this package runs from, with a mark where files were changed; None outside a checkout."""
    try:
        _git(
            "ls-files", "--error-unmatch", Path(__file__).name
        )  # installed inside another project, we are not its file
        return _git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*") or None
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(*words: str) -> str:
    command = ["git", "-C", str(Path(__file__).parent), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603
