"""Events of a run as TensorBoard reads them (`--tensorboard`): figures, pictures, and all else as text.

tensorboardX's SummaryWriter writes from a thread; should that fail, on a full disk say, training would wait for it for
ever. So the file is written to directly, by the same package.
"""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hardpair.errors import UserError

FLUSH_SECONDS = 5.0  # between figures: each flush waits for the disk


def require_package() -> None:
    """Refuse to begin without tensorboardX."""
    try:
        import tensorboardX  # noqa: F401
    except ImportError as error:
        raise UserError("tensorboard: needs the package tensorboardX; pip install 'hardpair[tensorboard]'") from error


class TensorBoard:
    """A callback that writes an event file of its own each time a run begins or is resumed.

    A resumed run does again what came after its checkpoint. The new file begins by taking that back, as log.jsonl does.
    """

    def __init__(self, folder: Path) -> None:
        require_package()
        from tensorboardX import event_file_writer, summary
        from tensorboardX.proto import event_pb2

        self.folder = folder
        self.open_file, self.summary, self.protocol = event_file_writer.EventsWriter, summary, event_pb2
        self.file: Any = None
        self.flushed = 0.0

    def __call__(self, event: str, values: Mapping[str, Any]) -> None:
        """Write an event."""
        if self.file is None:
            self._open(values["step"])
        self._add(values["step"], summary=self._summary(event, values))
        if event != "step" or time.monotonic() - self.flushed > FLUSH_SECONDS:
            self.file.flush()
            self.flushed = time.monotonic()

    def close(self) -> None:
        """End the file; one that cannot be written has been complained of already."""
        if self.file is not None:
            with suppress(OSError):
                self.file.close()

    def _open(self, step: int) -> None:
        """Files are read in the order of their names, which begin with the second; two may have the same."""
        self.folder.mkdir(parents=True, exist_ok=True)
        before = len(list(self.folder.iterdir()))
        self.file = self.open_file(str(self.folder / "events"), f".{before:06d}")
        self._add(step + 1, session_log=self.protocol.SessionLog(status=self.protocol.SessionLog.START))

    def _add(self, step: int, **content: Any) -> None:
        self.file.write_event(self.protocol.Event(wall_time=datetime.now(UTC).timestamp(), step=step, **content))

    def _summary(self, event: str, values: Mapping[str, Any]) -> Any:
        if event == "step":
            figures = [self.summary.scalar(f"train/{k}", v).value for k, v in values.items() if k != "step"]
            return self.summary.Summary(value=[value for figure in figures for value in figure])
        if event == "image":
            return self.summary.image(values["name"], values["image"], dataformats="HWC")
        rest = {name: value for name, value in values.items() if name != "step"}
        lines = json.dumps(rest, indent=2, ensure_ascii=False).splitlines()
        return self.summary.text(event, "\n".join(f"    {line}" for line in lines))  # Markdown for "as it stands"
