"""Those who are told of everything that happens in a run: the user's callback, and the writer for TensorBoard."""

import contextlib
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hardpair.errors import UserError, printable, shown

Callback = Callable[[str, Mapping[str, Any]], None]
"""Called as ``callback(event, values)``, with what log.jsonl gets, and with pictures."""


def check_callbacks(callback: Callback | None, *, tensorboard: bool) -> None:
    """Refuse what cannot be called, and what is not installed, before any work."""
    if callback is not None and not callable(callback):
        raise UserError(f"callback: must be a function of an event and its values, not {shown(callback)}")
    if tensorboard:
        from hardpair.train.tensorboard import require_package

        require_package()


@contextlib.contextmanager
def callbacks_of(run: Path, callback: Callback | None, *, tensorboard: bool) -> Iterator[list[Callback]]:
    """The callbacks that a run is asked to have; files are closed at the end of the block."""
    check_callbacks(callback, tensorboard=tensorboard)
    chosen = [] if callback is None else [callback]
    if not tensorboard:
        yield chosen
        return
    from hardpair.train.tensorboard import TensorBoard

    with contextlib.closing(TensorBoard(run / "tensorboard")) as writer:
        yield [*chosen, writer]


class Listeners:
    """Callbacks, and which of them have failed. A run is worth more than what somebody draws of it."""

    def __init__(self, callbacks: Sequence[Callback] = ()) -> None:
        self.callbacks = tuple(callbacks)
        self.failed: set[int] = set()

    def tell(self, event: str, values: Mapping[str, Any]) -> list[str]:
        """Call each with a copy of the values; returns what to say of those that failed for the first time.

        They are called again: a server that does not answer now may answer later.
        """
        complaints = []
        for place, callback in enumerate(self.callbacks):
            try:
                callback(event, dict(values))
            except Exception as error:  # whatever it is
                if place not in self.failed:
                    complaints.append(f"{_name(callback)} failed at the event {event!r} ({_described(error)})")
                self.failed.add(place)
        return complaints


def _name(callback: Callback) -> str:
    return f"callback {getattr(callback, '__name__', type(callback).__name__)}"


def _described(error: Exception) -> str:
    """What and where, in one line."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    words = " ".join(str(error).split())
    return printable(f"{type(error).__name__}: {words[:200]}; {Path(place.filename).name}, line {place.lineno}")
