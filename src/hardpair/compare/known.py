"""Results of earlier comparisons whose runs are no longer at hand: read from their compare.json, whoever wrote it."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hardpair.compare.plan import Job
from hardpair.compare.results import SEMI, Result, own_shares
from hardpair.errors import UserError, printable, shown
from hardpair.files import read_json
from hardpair.report.run_files import Record, mapping

MOST_BYTES = 10_000_000  # a run takes about 600
KINDS: dict[str, Any] = {field.name: field.type for field in dataclasses.fields(Result) if field.name not in SEMI}

Known = Mapping[str, Result]
"""By the hash of a run's recipe."""


def read_known(files: Iterable[Path], *, on: str, facts: Record) -> Known:
    """All results of these files, which must be of the very images that are asked for."""
    known: dict[str, Result] = {}
    for file in files:
        content = _read(file)
        if (content.get("on"), content.get("data")) != (on, facts):
            theirs = f"{shown(mapping(content.get('data')).get('name'))}, {shown(content.get('on'))} images"
            raise UserError(f"known: {file} is of {theirs}; asked for is {facts['name']!r} as it is now, {on!r} images")
        source = f"{file} ({content.get('date')}, commit {content.get('commit')})"
        known |= {result.recipe_hash: result for result in _results(file, content, printable(source))}
    return known


def known_result(known: Known, job: Job, labels: Sequence[float]) -> Result | None:
    """The result of that very recipe, if it was judged with every share of the labels that is asked for."""
    result, shares = known.get(job.recipe_hash), own_shares(job, labels)
    if result is None or not result.semi.keys() >= set(shares):
        return None
    semi, control = ({s: scores[s] for s in shares if s in scores} for scores in (result.semi, result.semi_control))
    return dataclasses.replace(result, semi=semi, semi_control=control)


def _read(file: Path) -> Record:
    try:
        return mapping(read_json(file, most=MOST_BYTES))
    except OSError as error:
        raise UserError(f"known: {file}: {error.strerror or error}; give the compare.json of a comparison") from error
    except ValueError as error:
        raise UserError(f"known: {file} is no compare.json ({error})") from error


def _results(file: Path, content: Record, source: str) -> list[Result]:
    try:
        seeds = [seed for row in content["rows"] for seed in row["seeds"]]
        return [_result({**seed, "source": seed["source"] or source}) for seed in seeds]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise UserError(f"known: {file} is no compare.json that can be read ({error!r})") from error


def _result(values: Record) -> Result:
    """Only plain values of the right kind are taken."""
    fields: dict[str, Any] = {
        name: float(values[name]) if kind is float else values[name] for name, kind in KINDS.items()
    }
    for name, kind in KINDS.items():
        if not isinstance(fields[name], kind):
            raise TypeError(f"{name}: {shown(fields[name])}")
    fields |= {name: {float(share): float(score) for share, score in values[name].items()} for name in SEMI}
    return Result(**fields)
