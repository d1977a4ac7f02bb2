"""The run's log: one JSON object a line, flushed at once; of several processes the first writes it."""

import json
from pathlib import Path
from typing import Any

from hardpair import processes
from hardpair.files import append_json, write_atomically


class Log:
    """Appends events to ``log.jsonl``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, event: str, **values: Any) -> None:
        """Append one line."""
        if processes.is_first():
            append_json(self.path, {"event": event, **values})

    def has(self, event: str) -> bool:
        """Whether such an event was logged."""
        return self.path.exists() and f'{{"event": "{event}"' in self.path.read_text()

    def rewind(self, step: int) -> None:
        """Forget what came after ``step``: a resumed run will write it again. A half-written last line goes too."""
        if not processes.is_first():
            return
        kept = []
        for line in self.path.read_text().splitlines() if self.path.exists() else []:
            try:
                if json.loads(line).get("step", 0) <= step:
                    kept.append(line + "\n")
            except ValueError:
                continue
        write_atomically(self.path, "".join(kept).encode())
