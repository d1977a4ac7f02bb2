"""Writing files so that a crash leaves the old one or the new one; and which code wrote them."""

import os
import subprocess
from pathlib import Path


def write_atomically(target: Path, content: bytes) -> None:
    """Write under a temporary name, sync, rename."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def commit() -> str | None:
    """The git commit this package runs from, with a mark where files were changed; None outside a checkout."""
    here = Path(__file__).parent
    try:
        words = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip() or None  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return None
