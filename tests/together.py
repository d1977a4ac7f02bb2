"""Real processes that begin at once: a fork server has imported what they need."""

import multiprocessing
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

# The server looks for modules where any new Python does, and not (before 3.12) where this one would.
HERE = Path(__file__).parent
FOLDERS = [HERE, HERE / "train", HERE / "evaluate"]
os.environ["PYTHONPATH"] = os.pathsep.join([*map(str, FOLDERS), os.environ.get("PYTHONPATH", "")])
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["lives", "shared_steps", "shared_compiling", "faulty", "hardpair.evaluate"])


def together(count: int, target: Callable[..., None], *arguments: Any) -> None:
    """Run a function in so many processes that find each other as torchrun's do."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    members = [SERVER.Process(target=_member, args=(place, count, port, target, arguments)) for place in range(count)]
    for member in members:
        member.start()
    for member in members:
        member.join(timeout=300)
    assert [member.exitcode for member in members] == [0] * count


def _member(place: int, count: int, port: int, target: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    group = {"RANK": place, "LOCAL_RANK": place, "WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in group.items()})
    target(*arguments)
