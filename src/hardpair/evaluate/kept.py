"""What an evaluation has found so far, kept in the run, so that after a stop the same command goes on with the rest."""

import functools
import hashlib
import json
from collections.abc import Callable, Set
from pathlib import Path
from typing import Any, TypeVar

import torch

from hardpair import distributed
from hardpair.files import append_json, commit, parse_json, read_plain, write_atomically

FILE = "trials.jsonl"
MOST = 64_000_000  # bytes; hundreds of thousands of lines
T = TypeVar("T")


class Kept:
    """Plain values by the hash of all that they depend on; without a run nothing is kept.

    Processes that judge together keep nothing: all must know the same, and the features, their work, are kept anyway.
    """

    def __init__(self, run: Path | None = None, say: Callable[[str], None] = lambda _: None) -> None:
        self.file = None if run is None or distributed.world_size() > 1 else run / FILE
        self.say = say
        self.known = {} if self.file is None else _read(self.file)
        self.used: set[str] = set()

    def recall(self, facts: Any, make: Callable[[], T], fits: Callable[[Any], bool]) -> T:
        """What is known of the facts, if it fits: anybody may have written it. Else it is made, and kept at once."""
        if self.file is None:
            return make()
        key = self._key(facts)
        if fits(self.known.get(key)):
            self._mention()
            found: T = self.known[key]
        else:
            before = set(self.used)
            found = make()
            append_json(self.file, {"key": key, "found": found})
            self._drop(self.used - before)  # what only led to it
        self.used.add(key)
        return found

    def forget(self) -> None:
        """The evaluation is done: the next one judges anew. What others wait for, stopped as they are, stays."""
        self._drop(self.used)

    def _drop(self, keys: Set[str]) -> None:
        if self.file is None or not keys:
            return
        left = [{"key": key, "found": found} for key, found in _read(self.file).items() if key not in keys]
        if left:
            write_atomically(self.file, "".join(f"{json.dumps(line)}\n" for line in left).encode())
        else:
            self.file.unlink(missing_ok=True)

    def _key(self, facts: Any) -> str:
        return hashlib.sha256(json.dumps([self._made_by, facts]).encode()).hexdigest()

    @functools.cached_property
    def _made_by(self) -> list[str | None]:
        """A score names its commit, so that no other may have made a part of it."""
        return [commit(), torch.__version__]

    def _mention(self) -> None:
        if not self.used:
            self.say(f"going on with an evaluation that was stopped ({self.file})")


def _read(file: Path) -> dict[str, Any]:
    """Every line that can be read; half a line that a crash has left, or a stranger's, is none of ours."""
    try:
        lines = read_plain(file, most=MOST).decode("utf-8", errors="replace").split("\n")
    except (OSError, ValueError):
        return {}
    known = {}
    for text in lines:
        try:
            line = parse_json(text)
        except ValueError:
            continue
        if isinstance(line, dict) and isinstance(line.get("key"), str):
            known[line["key"]] = line.get("found")
    return known
