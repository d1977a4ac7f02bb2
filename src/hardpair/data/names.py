"""What ``--data`` may be: a set with a name, or the path of a folder."""

import difflib
import os
from pathlib import Path

from hardpair.errors import UserError

NAMES = ("sample", "cifar10")


def as_folder(data: str) -> Path:
    """The folder that is meant; a word that is neither a path nor a name is refused."""
    if not _is_path(data):
        near = difflib.get_close_matches(data.lower(), NAMES, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UserError(f"data: {data!r} is unknown; {hint}give {', '.join(NAMES)} or the path of a folder of images")
    return Path(data).expanduser()


def _is_path(data: str) -> bool:
    """Whether it is a file or folder, or at least written like one."""
    return data != "" and (os.sep in data or data.startswith(("~", ".")) or os.access(data, os.F_OK))
