"""The run's log: one JSON object a line, flushed at once; of several processes the first writes it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hardpair import distributed
from hardpair.files import append_json, parse_json, write_atomically


class Log:
    """Appends events to ``log.jsonl``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, event: str, **values: Any) -> None:
        """Append one line."""
        if distributed.is_main():
            append_json(self.path, {"event": event, **values})

    def has(self, event: str) -> bool:
        """Whether such an event was logged."""
        return self.last(event) is not None

    def last(self, event: str) -> dict[str, Any] | None:
        """What was logged with the latest such event."""
        found = [line for _, line in self._lines() if line.get("event") == event]
        return found[-1] if found else None

    def rewind(self, step: int) -> None:
        """Forget what came after ``step``: a resumed run will write it again. A half-written last line goes too."""
        if not distributed.is_main():
            return
        kept = [text + "\n" for text, line in self._lines() if line.get("step", 0) <= step]
        write_atomically(self.path, "".join(kept).encode())

    def _lines(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Every line that can be read, as it is and as what it says."""
        for text in self.path.read_text(errors="replace").splitlines() if self.path.exists() else []:
            try:
                line = parse_json(text)
            except ValueError:
                continue
            if isinstance(line, dict) and isinstance(line.get("step", 0), int | float):
                yield text, line
