"""Writing files so that a crash leaves the old one or the new one; and which code wrote them."""

import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from hardpair.errors import UserError


def write_atomically(target: Path, content: bytes) -> None:
    """Write under a temporary name, sync, rename. A full disk leaves the old file as it was."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
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
