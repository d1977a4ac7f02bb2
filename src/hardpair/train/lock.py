"""One run, one writer: a lock that dies with its process, however that ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hardpair import distributed
from hardpair.errors import UserError


@contextmanager
def sole_writer(run: Path) -> Iterator[None]:
    """Hold the folder for the length of the block, or say who does. Of several processes the first holds it for all."""
    if not distributed.is_main():
        yield
        return
    with (run / "lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise UserError(
                f"{run}: is being trained by another process ({holder}); wait for it, or choose another --run"
            ) from error
        file.truncate(0)
        file.write(f"process {os.getpid()} on {os.uname().nodename}\n")
        file.flush()
        yield
        file.truncate(0)
