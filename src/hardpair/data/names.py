"""Names of a million files in little memory."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import overload


class Names(Sequence[str]):
    """Text in a fixed order, kept as one block of bytes; a list of Python's own strings takes five times as much.

    A slice is a list. Names that are not text (PEP 383) survive.
    """

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

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self[row] for row in range(*place.indices(len(self)))]
        row = range(len(self))[place]  # IndexError beyond the ends
        return self._text(self._ends[row - 1] if row else 0, self._ends[row])

    def __iter__(self) -> Iterator[str]:
        start = 0
        for end in self._ends:
            yield self._text(start, end)
            start = end

    def _text(self, start: int, end: int) -> str:
        return self._block[start:end].decode("utf-8", "surrogatepass")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return len(self) == len(other) and all(one == another for one, another in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # as lists have none

    def __repr__(self) -> str:
        return f"Names({self[:3]}{' and more' * (len(self) > 3)})"
