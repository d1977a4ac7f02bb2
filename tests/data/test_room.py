"""How much may be decoded at once."""

import threading

import pytest
from hostile import within

from hardpair.data.room import Room


def test_no_more_is_decoded_at_once_than_there_is_room_for() -> None:
    room, most, lock, now = Room(10), [0], threading.Lock(), [0]
    together = threading.Event()

    def work(pixels: int) -> None:
        with room.take(pixels):
            with lock:
                now[0] += min(pixels, 10)
                most[0] = max(most[0], now[0])
            together.wait(0.01)
            with lock:
                now[0] -= min(pixels, 10)

    threads = [threading.Thread(target=work, args=(pixels,)) for pixels in (3, 7, 4, 10, 1, 2, 99, 5, 5, 6)]
    with within(10):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert 6 < most[0] <= 10
    assert room.free == 10


def test_room_is_given_back_after_a_failure() -> None:
    room = Room(10)
    with pytest.raises(ValueError, match="broken"), room.take(7):
        raise ValueError("broken")
    assert room.free == 10
