"""How much may be decoded at a time: threads that each hold a giant picture would fill any memory."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Room:
    """So many pixels at once, in all threads together."""

    def __init__(self, pixels: int) -> None:
        self.free = self.whole = pixels
        self.changed = threading.Condition()

    @contextmanager
    def take(self, pixels: int) -> Iterator[None]:
        """Wait for room, and give it back at the end; whoever wants more than there is waits for all of it."""
        if pixels < self.whole // 100:  # of these all threads together hold little, and asking would take time
            yield
            return
        pixels = min(pixels, self.whole)
        with self.changed:
            self.changed.wait_for(lambda: self.free >= pixels)
            self.free -= pixels
        try:
            yield
        finally:
            with self.changed:
                self.free += pixels
                self.changed.notify_all()
