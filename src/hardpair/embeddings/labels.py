"""Labels that people wrote into a table: a CSV with the columns filename and label, as `hardpair select` writes it.

Spreadsheets put a mark at the beginning, semicolons or tabs in place of commas, and leave rows empty; all of that is
read. What cannot be meant is refused in one line, and what is left out is named.
"""

import csv
import io
import itertools
import logging
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from hardpair.embeddings.embedding import BROKEN, Embedding
from hardpair.errors import UserError, near, printable, shown
from hardpair.files import read_plain
from hardpair.text import several

MOST_BYTES = 1 << 32  # of a table; a million names take 50 MB
MOST_NEAR = 20_000  # names that a wrong one is compared with; a million would take minutes
LONGEST_NAME = 255  # characters
FILENAME, LABEL = "filename", "label"
GUESSED = {"probability", "second", "margin", "given"}  # columns of predictions
MARKS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))
ODD = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")  # control characters, line breaks, what is no UTF-8
log = logging.getLogger("hardpair")


@dataclass(frozen=True)
class Labelled:
    """Which rows of an embedding have a label, and which."""

    rows: NDArray[np.int64]  # (n,) ascending
    labels: NDArray[np.int64]  # (n,) label k is classes[k]
    classes: tuple[str, ...]  # sorted
    source: str  # the table, or the embedding whose folders are the classes

    def __len__(self) -> int:
        return len(self.rows)

    def only(self, rows: NDArray[np.bool_]) -> "Labelled":
        """A part of them (n,), with the classes that occur in it."""
        return _labelled(self.rows[rows], [self.classes[k] for k in self.labels[rows].tolist()], self.source)

    def moved(self, rows: Sequence[int]) -> "Labelled":
        """The same labels of pictures that have other rows now, -1 where they are gone."""
        now = np.array(rows, dtype=np.int64)
        return replace(self, rows=now[now >= 0], labels=self.labels[now >= 0])

    def require_two_classes(self) -> None:
        """A classifier of one class has nothing to tell apart."""
        if len(self.classes) < 2:
            only = f"only {shown(self.classes[0])} occurs" if self.classes else "there are no labels"
            raise UserError(f"{self.source}: {only}; a classifier needs labels of two classes or more")


def labels_from_table(embedding: Embedding, file: Path | str) -> Labelled:
    """The labels of a table; those of files that are not there are named and left out."""
    given = _match(embedding, read_labels(file), str(file))
    rows = np.array(sorted(given), dtype=np.int64)
    return _labelled(rows, [given[row] for row in rows.tolist()], str(file))


def labels_from_folders(embedding: Embedding) -> Labelled:
    """The classes of the folders that the images lie in."""
    if not embedding.classes:
        raise UserError(
            f"{embedding.folder}: its images have no labels; give a table with --labels (hardpair select writes one), "
            "or embed images that lie in a folder per class"
        )
    rows = np.flatnonzero(embedding.labels >= 0)
    return _labelled(rows, [embedding.classes[k] for k in embedding.labels[rows].tolist()], str(embedding.folder))


def _labelled(rows: NDArray[np.int64], names: Sequence[str], source: str) -> Labelled:
    classes = tuple(sorted(set(names)))
    number = {name: place for place, name in enumerate(classes)}
    _warn_of_look_alikes(classes, source)
    return Labelled(rows, np.array([number[name] for name in names], dtype=np.int64), classes, source)


def _warn_of_look_alikes(classes: Sequence[str], source: str) -> None:
    alike = defaultdict(list)
    for name in classes:
        alike[name.casefold()].append(name)
    for names in alike.values():
        if len(names) > 1:
            log.warning("%s: %s are taken for different classes", source, " and ".join(shown(name) for name in names))


def read_labels(file: Path | str) -> dict[str, str]:
    """Label by filename, for those that have one; UserError where one file has two different labels."""
    file = Path(file)
    rows = _rows(file)
    filename, label = _columns(file, next(rows, (1, []))[1])
    found: dict[str, str] = {}
    unlabelled = 0
    for number, row in rows:
        name, given = (row[place] if place < len(row) else "" for place in (filename, label))
        given = given.strip()
        if not given:
            unlabelled += 1
            continue
        if odd := ODD.search(given):
            raise UserError(f"{file}: line {number:,}: the label {_fault(odd[0])}")
        if name.strip() and found.setdefault(name, given) != given:
            both = f"{shown(found[name])}, then {shown(given)}"
            raise UserError(f"{file}: line {number:,}: {_named(name)} has two different labels ({both}); keep one")
    if not found:
        why = f"none of its {several(unlabelled, 'row')} has a label yet" if unlabelled else "holds no labels"
        raise UserError(f"{file}: {why}; fill in the column {LABEL!r}")
    return found


def _fault(char: str) -> str:
    """What is wrong with a label that holds this character."""
    if "\ud800" <= char <= "\udfff":
        return "is not UTF-8; save the table as CSV UTF-8"
    return f"holds a control character or a line break ({char!a}); take it out"


def _rows(file: Path) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of each line that is not empty."""
    try:
        content = read_plain(file, most=MOST_BYTES)
        encoding = next((name for mark, name in MARKS if content.startswith(mark)), "utf-8")
        text = content.decode(encoding, "surrogateescape")
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise UserError(f"{file}: cannot be read ({reason}); give a CSV with the columns filename,label") from error
    first = next((line for line in io.StringIO(text) if line.strip()), "")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count), strict=True)
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                yield reader.line_num, row
    except csv.Error as error:
        raise UserError(f"{file}: line {reader.line_num:,}: is no line of a CSV ({error}); correct it") from error


def _columns(file: Path, header: Sequence[str]) -> tuple[int, int]:
    """Where filename and label stand."""
    if not header:
        raise UserError(f"{file}: is empty; give a CSV with the columns filename,label")
    names = [cell.strip().lower() for cell in header]
    for name in (FILENAME, LABEL):
        if names.count(name) != 1:
            how = "no column" if name not in names else "two columns"
            line = shown(",".join(header))
            raise UserError(f"{file}: has {how} {name!r}; its first line must be filename,label, and is {line}")
    if GUESSED.issubset(names):
        raise UserError(
            f"{file}: holds predictions, and a classifier that learns from its own looks better than it is; copy the "
            "lines that you checked into a table with only filename,label"
        )
    return names.index(FILENAME), names.index(LABEL)


def _match(embedding: Embedding, given: Mapping[str, str], source: str) -> dict[int, str]:
    """Label by row."""
    named = {name: _below(embedding, name) for name in given}
    rows = embedding.rows_of(itertools.chain(given, named.values()))
    found: dict[int, str] = {}
    missing = []
    for name, label in given.items():
        row = rows.get(name, rows.get(named[name]))
        if row is None:
            missing.append(name)
        elif found.setdefault(row, label) != label:
            file = _named(embedding.files[row])
            raise UserError(
                f"{source}: {file} has two different labels ({shown(found[row])}, {shown(label)}); keep one"
            )
    if missing:
        _tell_missing(embedding, missing, len(given), source)
    return found


def _below(embedding: Embedding, name: str) -> str:
    """The name below the folder of the images, of one that was given as a path."""
    name = name.strip()
    path = PurePosixPath(os.path.normpath(name if "/" in name else name.replace("\\", "/")))
    root = PurePosixPath(embedding.root.as_posix())
    return str(path.relative_to(root) if path.is_absolute() and path.is_relative_to(root) else path)


def _tell_missing(embedding: Embedding, missing: Sequence[str], count: int, source: str) -> None:
    """A warning, since pictures come and go; an error if none is there, since then the table is another's."""
    broken = _broken(embedding, missing)
    unreadable = f"; {len(broken):,} of them could not be read ({BROKEN})" if broken else ""
    first = next((name for name in missing if name not in broken), missing[0])
    what = f"are not among the images of {embedding.folder}, such as {_named(first)}{_nearest(embedding, first)}"
    if len(missing) == count:
        raise UserError(f"{source}: its {several(count, 'file')} {what}{unreadable}")
    said = printable(f"{what}{unreadable}")
    log.warning("%s: %d of %d files %s; they are left out", source, len(missing), count, said)


def _named(file: str) -> str:
    """The name of a file as a message can show it: in full where any system would."""
    return f"'{file}'" if len(file) <= LONGEST_NAME else shown(file)


def _broken(embedding: Embedding, names: Sequence[str]) -> set[str]:
    try:
        text = read_plain(embedding.folder / BROKEN, most=MOST_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return set()
    lines = {line.rpartition(": ")[0] for line in text.splitlines()}
    return lines.intersection(names)


def _nearest(embedding: Embedding, name: str) -> str:
    """A file of the same name in another folder, else one of nearly the same name."""
    own = PurePosixPath(name.replace("\\", "/")).name
    same = next((file for file in embedding.files if file.rpartition("/")[2] == own), None)
    return f"; did you mean {same}?" if same else near(name, embedding.files[:MOST_NEAR])
