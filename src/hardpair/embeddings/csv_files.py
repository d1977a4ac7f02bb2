"""CSV files of the verbs: written under a temporary name first, and never over a file of another kind."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TextIO

from hardpair.errors import UserError
from hardpair.files import replacing


def write_csv(target: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> Path:
    """Write a table; names of files that are not text come out as the bytes they are. Returns where it is."""
    refuse_other(target, header)
    with (
        replacing(target) as temporary,
        temporary.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file,
    ):
        writer = csv.writer(_Lines(file))
        writer.writerow(header)
        writer.writerows(rows)
    return target


class _Lines:
    """Lines of a csv.writer whose rows end in CR and LF: before Python 3.13 it quotes no other ends within cells."""

    def __init__(self, file: TextIO) -> None:
        self.file = file

    def write(self, row: str) -> int:
        return self.file.write(row.removesuffix("\r\n") + "\n")


def refuse_other(target: Path, header: Sequence[str]) -> None:
    """Before any work: refuse to write over a file that is no table with these columns."""
    if target.suffix.lower() != ".csv":
        raise UserError(f"{target}: give a name that ends in .csv")
    if not target.parent.is_dir():
        raise UserError(f"{target}: there is no folder {target.parent}")
    if target.is_dir():
        raise UserError(f"{target}: is a folder; give the name of a file")
    if not target.exists():
        return
    with target.open("rb") as file:
        first = file.readline(1000).decode("utf-8", "replace").strip()
    if first != ",".join(header):
        raise UserError(f"{target}: holds something else; give another name, or delete it")
