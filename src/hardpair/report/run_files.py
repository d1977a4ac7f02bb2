"""The files of a run, read so that a crash in the middle of a line never costs the page."""

import json
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hardpair.errors import UserError
from hardpair.files import MOST_BYTES, parse_json, read_plain
from hardpair.report.markup import count, numeric
from hardpair.text import several

MOST = 64_000_000  # bytes of a file that is shown; beyond that a page could not show it either
Record = dict[str, Any]


@dataclass(frozen=True)
class RunFiles:
    """Everything a run folder says about itself."""

    path: Path
    recipe: Record
    log: list[Record] = field(default_factory=list)
    scores: list[Record] = field(default_factory=list)  # the latest of each kind
    all_scores: list[Record] = field(default_factory=list)  # as they were written, of earlier steps too
    pairs: Record | None = None
    neighbours: Record | None = None
    encoder: Record = field(default_factory=dict)  # shape of the encoder
    notes: list[str] = field(default_factory=list)  # what could not be read, in words

    @property
    def name(self) -> str:
        """What people call the run: its folder, which they chose, rather than the recipe, which several runs share."""
        return self.path.resolve().name

    def events(self, *kinds: str) -> list[Record]:
        """The lines of the log of these kinds, oldest first."""
        return [line for line in self.log if line.get("event") in kinds]

    @property
    def start(self) -> Record:
        """The first line of the log, or nothing."""
        return next(iter(self.events("start")), {})

    @property
    def steps(self) -> list[Record]:
        """The logged steps that count: a resumed run repeats some, and the later ones replace the earlier."""
        kept: list[Record] = []
        for line in self.events("step"):
            while kept and _step(kept[-1]) >= _step(line):
                kept.pop()
            kept.append(line)
        return kept

    @property
    def labelled(self) -> bool:
        """Whether its images have labels; where no file says so, they may have."""
        classes = numeric(self.start.get("classes"))
        if classes is not None:
            return classes > 0
        images = [pair.get("anchor") for pair in objects((self.pairs or {}).get("pairs"))]
        images += [query.get("image") for query in objects((self.neighbours or {}).get("queries"))]
        return not images or any(mapping(image).get("label") is not None for image in images)

    @property
    def ending(self) -> str | None:
        """How training ended if it did not end well, in words."""
        last = next(iter(self.events("start", "resume", "stop", "end")[-1:]), None)
        if last is None or last["event"] == "end":
            return None
        if last["event"] == "stop":
            reason = str(last.get("reason", "no reason is given")).rstrip(".")
            return f"Training stopped early at step {count(last.get('step'))}: {reason}."
        return "The log has no end: training is still running, or it was cut off. What follows is what there is so far."

    @property
    def evaluate_command(self) -> str:
        """The command line that scores this run; images without labels need labelled ones beside them."""
        command = f"hardpair evaluate {shlex.quote(str(self.path))}"
        return command if self.labelled else f"{command} --data FOLDER_WITH_CLASSES"


def read_run(path: Path) -> RunFiles:
    """Read a run folder; only recipe.json has to be there."""
    if not (path / "recipe.json").is_file():
        raise UserError(f"{path} is not a run: it holds no recipe.json; `hardpair pretrain` makes a run")
    notes: list[str] = []
    recipe = _read_object(path / "recipe.json", notes, most=MOST_BYTES)
    if recipe is None:
        raise UserError(f"{path} is not a run that can be read: its {notes[0]}")
    scores = _read_lines(path / "scores.jsonl", notes)
    return RunFiles(
        path=path,
        recipe=recipe,
        log=_read_lines(path / "log.jsonl", notes),
        scores=_latest(scores),
        all_scores=scores,
        pairs=_read_object(path / "pairs.json", notes),
        neighbours=_read_object(path / "neighbours.json", notes),
        encoder=_read_object(path / "encoder.json", notes) or {},
        notes=notes,
    )


def mapping(value: Any) -> Record:
    """The value if it is an object, otherwise an empty one: files may be older or newer than this code."""
    return value if isinstance(value, dict) else {}


def objects(value: Any) -> list[Record]:
    """The objects in a list, or nothing."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _step(line: Record) -> float:
    return numeric(line.get("step")) or 0.0


def _read_object(path: Path, notes: list[str], *, most: int = MOST) -> Record | None:
    text = _read_text(path, notes, most)
    if text is None:
        return None
    try:
        value = parse_json(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        notes.append(f"{path.name} is damaged, perhaps by a crash while it was written, and was left out.")
        return None
    return value


def _read_lines(path: Path, notes: list[str]) -> list[Record]:
    """The objects of a file of JSON lines; a crash leaves half a line, which is left out and mentioned."""
    lines = [line for line in (_read_text(path, notes, MOST) or "").split("\n") if line.strip()]
    parsed = [_parse(line) for line in lines]
    kept = [line for line in parsed if line is not None]
    if damaged := len(parsed) - len(kept):
        notes.append(f"{path.name}: {several(damaged, 'line')} could not be read and {_were(damaged)} left out.")
    return kept


def _read_text(path: Path, notes: list[str], most: int) -> str | None:
    """The text of a file that is there; a letter that is none becomes a question mark."""
    if not path.is_file():
        return None
    try:
        return read_plain(path, most=most).decode("utf-8", errors="replace")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        notes.append(f"{path.name} cannot be read ({reason}) and was left out.")
        return None


def _were(many: int) -> str:
    return "were" if many > 1 else "was"


def _parse(line: str) -> Record | None:
    try:
        value = parse_json(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _latest(scores: list[Record]) -> list[Record]:
    """One score for each protocol, settings, data and precision: the last one written."""
    kept: dict[str, Record] = {}
    for score in scores:
        identity = [score.get("protocol"), score.get("settings"), score.get("data"), score.get("precision")]
        kept[json.dumps(identity, sort_keys=True)] = score
    return list(kept.values())
