"""The scores of a run as plain text, for the terminal."""

from pathlib import Path

from hardpair.errors import printable
from hardpair.report.files import Record, Run, mapping, read_run
from hardpair.report.opening import ending, what_was_done
from hardpair.report.words import metric_name, numeric, signed
from hardpair.words import several

_HEADINGS = ("protocol", "tested on", "metric", "encoder", "random", "gain")
_NUMBERS = 3  # the last columns are numbers and line up on the right


def summary_table(run: Path) -> str:
    """What was done, the scores beside those of a random encoder, and anything amiss, as lines of text."""
    read = read_run(run)
    lines = [f"{read.name}: {what_was_done(read)}."]
    rows = [row for score in read.scores for row in _rows(score)]
    lines += (
        ["", *_aligned([_HEADINGS, *rows])] if rows else [f"No scores yet: {read.command('evaluate')} measures them."]
    )
    amiss = _amiss(read)
    return "\n".join(map(printable, [*lines, *([""] if amiss else []), *amiss]))


def _rows(score: Record) -> list[tuple[str, ...]]:
    settings = mapping(score.get("settings"))
    words = (score.get("protocol", "?"), settings.get("form"), _share(settings))
    protocol = " ".join(str(word) for word in words if word)
    tested = str(mapping(mapping(score.get("data")).get("test")).get("name", "?"))
    control = mapping(score.get("control"))
    rows: list[tuple[str, ...]] = []
    for key, raw in mapping(score.get("metrics")).items():
        value, random = numeric(raw), numeric(control.get(key))
        gain = "–" if value is None or random is None else signed(value - random)
        rows.append((protocol, tested, metric_name(key), _cell(value), _cell(random), gain))
    return rows


def _share(settings: Record) -> str:
    share = numeric(settings.get("labels"))
    return "" if share is None else f"{100 * share:g} %"


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    first_number = len(_HEADINGS) - _NUMBERS
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if place >= first_number else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells))
    return lines


def _amiss(run: Run) -> list[str]:
    warned = len(run.events("warning"))
    logged = f"The log holds {several(warned, 'warning')}; the page shows them." if warned else None
    return [text for text in (ending(run), logged, *run.notes) if text]
