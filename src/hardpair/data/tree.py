"""The image files below a folder: all there are, or those that a list names."""

import itertools
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from hardpair.data.names import Names
from hardpair.errors import UserError, shown

EXTENSIONS = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".gif")
UNREAD = (".tif", ".tiff", ".heic", ".avif")  # pictures too, of kinds that nothing here reads
LISTS = (".txt", ".lst", ".list")  # files that hold names of images, one per line
MOST_BYTES = 1 << 32  # of such a list
LONGEST_NAME = 4096  # bytes; systems allow a path no more


class Tree(ABC):
    """Image files below one folder."""

    root: Path

    def __init__(self) -> None:
        self.unread = Counter[str]()  # files beside those found that end like pictures of other kinds

    @abstractmethod
    def folders(self) -> dict[str, Path]:
        """Sub-folders by lower-case name: Train/ and TEST/ are splits too, and not classes."""

    @abstractmethod
    def find(self, folder: Path) -> Names:
        """Names of all image files below the root or a sub-folder, relative to it, sorted."""


def open_tree(path: Path) -> Tree:
    """A folder, or a list of files."""
    if not path.exists():
        raise UserError(f"{path}: no such folder")
    if path.is_dir():
        return FolderTree(path)
    if path.suffix.lower() in LISTS:
        return ListTree(path)
    what = "give the folder that holds the images, or a list of files (a name per line) called .txt"
    raise UserError(f"{path}: is a file; {what}")


class FolderTree(Tree):
    """All files with the name of an image; hidden ones are left out, links followed once."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root

    def folders(self) -> dict[str, Path]:
        """By looking."""
        try:
            return {path.name.lower(): path for path in sorted(self.root.iterdir()) if path.is_dir()}
        except OSError as error:
            raise UserError(f"{self.root}: cannot be read ({error.strerror})") from error

    def find(self, folder: Path) -> Names:
        """By walking; of a million files no more is kept than their names."""
        names: list[str] = []
        seen: set[str] = set()
        for inner, below, files in os.walk(os.fspath(folder), followlinks=True, onerror=_refuse):
            below[:] = sorted(name for name in below if not name.startswith("."))
            real = os.path.realpath(inner)
            if real in seen:  # a link that leads back up would never end
                below.clear()
                continue
            seen.add(real)
            prefix = _prefix(inner, folder)
            names += [prefix + name for name in files if name.lower().endswith(EXTENSIONS) and name[0] != "."]
            others = [name for name in files if name.lower().endswith(UNREAD) and name[0] != "."]
            self.unread.update(Path(name).suffix.lower() for name in others)
        if not names:
            raise UserError(f"{folder}: holds no images ({', '.join(EXTENSIONS)})")
        names.sort()
        return Names(names)


def _prefix(folder: str, root: Path) -> str:
    below = os.path.relpath(folder, root)
    return "" if below == os.curdir else f"{Path(below).as_posix()}/"


def _refuse(error: OSError) -> None:
    raise UserError(f"{error.filename}: cannot be read ({error.strerror})") from error


class ListTree(Tree):
    """The files that a list names, relative to the list or to the root of the file system, below what they share.

    Their order does not matter, and whoever is named twice counts once.
    """

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file
        paths = sorted({path for _, path in self._lines()})
        if not paths:
            raise UserError(f"{file}: names no files; give one per line")
        root = os.path.commonpath([os.path.dirname(paths[0]), *map(os.path.dirname, paths[1:])])  # noqa: PTH120
        self.root = Path(root)
        cut = len(root.rstrip(os.sep)) + 1
        self.names = Names(sorted(path[cut:].replace(os.sep, "/") for path in paths))
        self._refuse_lost()

    def folders(self) -> dict[str, Path]:
        """Those that hold files of the list."""
        tops = sorted({name.partition("/")[0] for name in self.names if "/" in name})
        return {top.lower(): self.root / top for top in tops}

    def find(self, folder: Path) -> Names:
        """By name."""
        below = _prefix(os.fspath(folder), self.root)
        return Names(name.removeprefix(below) for name in self.names if name.startswith(below))

    def _lines(self) -> Iterator[tuple[int, str]]:
        """Number of each line that is not empty, and the path it gives: absolute, links as they are."""
        try:
            if not self.file.is_file() or self.file.stat().st_size > MOST_BYTES:
                raise UserError(f"{self.file}: is no plain file, or too long for a list of files")
            with self.file.open("rb") as stream:
                base = os.path.abspath(self.file.parent)  # noqa: PTH100 - links stay links
                for number in itertools.count(1):
                    if not (line := stream.readline(LONGEST_NAME + 3)):
                        return
                    if name := self._name(line, number):
                        yield number, os.path.normpath(os.path.join(base, name))  # noqa: PTH118
        except OSError as error:
            raise UserError(f"{self.file}: cannot be read ({error.strerror or error})") from error

    def _name(self, line: bytes, number: int) -> str:
        name = line.removeprefix(b"\xef\xbb\xbf" if number == 1 else b"").rstrip(b"\r\n")
        if len(name) > LONGEST_NAME or b"\0" in name:
            raise UserError(f"{self.file}: line {number:,}: is no name of a file ({shown(line[:40])})")
        return os.fsdecode(name) if name.strip() else ""

    def _refuse_lost(self) -> None:
        """Name the line of the first file that is not there."""
        lost = [name for name in self.names if not os.path.isfile(os.path.join(self.root, name))]  # noqa: PTH113, PTH118
        if not lost:
            return
        first = os.path.normpath(os.path.join(self.root, lost[0]))  # noqa: PTH118
        number = next((number for number, path in self._lines() if path == first), 0)
        more = f", and {len(lost) - 1:,} more" if len(lost) > 1 else ""
        raise UserError(
            f"{self.file}: line {number:,}: there is no file {first}{more}; correct the line, or make the list again"
        )
