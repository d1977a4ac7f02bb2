"""How much may be decoded at a time: threads that each hold a giant picture would fill any memory."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

NOTHING = nullcontext()


class Room:
    """So many pixels at once, in all threads together."""

    def __init__(self, pixels: int) -> None:
        self.free = self.whole = pixels
        self.changed = threading.Condition()

    def take(self, pixels: int) -> AbstractContextManager[None]:
        """Wait for room, and give it back at the end; whoever wants more than there is waits for all of it."""
        # Of small ones all threads together hold little, and asking would take time.
        return NOTHING if pixels < self.whole // 100 else self._hold(min(pixels, self.whole))

    @contextmanager
    def _hold(self, pixels: int) -> Iterator[None]:
        with self.changed:
            self.changed.wait_for(lambda: self.free >= pixels)
            self.free -= pixels
        try:
            yield
        finally:
            with self.changed:
                self.free += pixels
                self.changed.notify_all()
