"""What ``--data`` may be: a set with a name, or the path of a folder."""

import difflib
import os
from pathlib import Path

from hardpair.errors import UserError, shown

NAMES = ("sample", "cifar10")


def as_folder(data: str) -> Path:
    """The folder that is meant; a word that is neither a path nor a name is refused.

    Recipes come from strangers too, and may name anything.
    """
    if not _is_path(data):
        near = difflib.get_close_matches(data[:100].lower(), NAMES, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}? " if near else ""
        choices = f"{', '.join(NAMES)} or the path of a folder of images"
        raise UserError(f"data: {shown(data)} is unknown; {hint}give {choices}")
    try:
        path = Path(data).expanduser()
        path.exists()
    except (OSError, RuntimeError) as error:  # too long; the home of nobody
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"data: {shown(data)} cannot be the path of a folder ({reason})") from error
    return path


def _is_path(data: str) -> bool:
    """Whether it is a file or folder, or at least written like one."""
    if data == "" or "\0" in data:
        return False
    return os.sep in data or data.startswith(("~", ".")) or os.access(data, os.F_OK)
