"""Columns of text for a million images in little memory: Python's own strings would take a hundred bytes each."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, overload


class Column(Sequence[str]):
    """Text in a fixed order that is equal to a list of the same text. A slice is a list."""

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self._at(row) for row in range(*place.indices(len(self)))]
        return self._at(range(len(self))[place])  # IndexError beyond the ends

    def _at(self, row: int) -> str:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return len(self) == len(other) and all(one == another for one, another in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # as lists have none

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self[:3]}{' and more' * (len(self) > 3)})"


class Names(Column):
    """Text that differs from row to row, in one block of bytes. Names that are not text (PEP 383) survive."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._block = bytearray()
        self._ends = array("q")  # (N,) of each name in the block
        for name in names:
            self.append(name)

    def append(self, name: str) -> None:
        """One more."""
        self._block += name.encode("utf-8", "surrogatepass")
        self._ends.append(len(self._block))

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[str]:
        start = 0
        for end in self._ends:
            yield self._block[start:end].decode("utf-8", "surrogatepass")
            start = end

    def _at(self, row: int) -> str:
        start = self._ends[row - 1] if row else 0
        return self._block[start : self._ends[row]].decode("utf-8", "surrogatepass")


class Repeated(Column):
    """A few words, each of them many times."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        self.numbers: Final[dict[str, int]] = {}  # of each word, in the order in which they come
        self.codes = array("i")  # (N,)
        self._words: list[str] = []
        for word in words:
            self.append(word)

    def append(self, word: str) -> None:
        """One more."""
        if (number := self.numbers.setdefault(word, len(self._words))) == len(self._words):
            self._words.append(word)
        self.codes.append(number)

    def __len__(self) -> int:
        return len(self.codes)

    def __contains__(self, word: object) -> bool:
        return word in self.numbers

    def _at(self, row: int) -> str:
        return self._words[self.codes[row]]
