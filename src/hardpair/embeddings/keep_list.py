"""The list of files worth keeping: a name per line, as `embed`, `pretrain` and `pack` take it."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from hardpair.data.tree import EXTENSIONS, LISTS
from hardpair.embeddings.embedding import Embedding
from hardpair.embeddings.pictures import Pictures
from hardpair.errors import UserError, printable
from hardpair.files import write_atomically
from hardpair.text import several


def refuse_list(target: Path, embedding: Embedding) -> None:
    """Before any work: a list that could not be written, or that nobody could read."""
    if embedding.manifest["images"]["kind"] != "files":
        source = embedding.manifest["images"]["source"]
        raise UserError(f"keep_list: the images of {source} are no files of their own; embed a folder to get a list")
    if target.suffix.lower() not in LISTS:
        raise UserError(f"{target}: give a name that ends in {', '.join(LISTS)}")
    if not target.parent.is_dir():
        raise UserError(f"{target}: there is no folder {target.parent}")
    if target.exists() and not _is_list(target):
        raise UserError(f"{target}: holds something else than names of images; give another name, or delete it")


def _is_list(target: Path) -> bool:
    if not target.is_file():
        return False
    with target.open("rb") as file:
        first = file.readline(5000).strip().lower()
    return not first or os.fsdecode(first).endswith(EXTENSIONS)


def write_list(target: Path, rows: Iterable[int], pictures: Pictures) -> list[str]:
    """Names relative to the list's own folder; returns what to say of files that it cannot name."""
    base = os.path.abspath(target.parent)  # noqa: PTH100 - links stay links
    lines, lost, odd = [], [], []
    for row in rows:
        path = pictures.path(row)
        assert path is not None
        name = _relative(os.path.abspath(path), base)  # noqa: PTH100
        if "\n" in name or name.endswith("\r") or not name.strip():
            odd.append(name)
        elif not path.is_file():
            lost.append(name)
        else:
            lines.append(os.fsencode(name) + b"\n")
    write_atomically(target, b"".join(lines))
    return [*_left_out(lost, "not there any more"), *_left_out(odd, "with line breaks in their names")]


def _relative(path: str, base: str) -> str:
    try:
        return os.path.relpath(path, base)
    except ValueError:  # another drive
        return path


def _left_out(names: list[str], why: str) -> Iterator[str]:
    if names:
        yield printable(f"The keep list is without {several(len(names), 'file')} {why}, such as {names[0]}.")
