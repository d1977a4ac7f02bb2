"""The end of the page: how to read it, and everything needed to check or repeat it."""

import re
import shlex
from typing import Any

from hardpair.report.files import Record, Run, mapping
from hardpair.report.markup import Html, element, folded, paragraph, section, table
from hardpair.report.scores import protocol_title
from hardpair.report.words import plain

_COMMIT = re.compile(r"([0-9a-f]{7,64})(-dirty)?")


def how_to_read(_run: Run) -> Html:
    """Three sentences for a reader who has never seen such a page."""
    labels = "The encoder learned from images alone; labels come in only afterwards, to measure and to look. "
    control = (
        "A random encoder of the same shape already tells some images apart, so what matters is the distance between "
        "the two, not the height of one bar. "
    )
    collapse = (
        "A loss that falls while spread or effective rank falls to the floor is not success but collapse: every image "
        "then looks the same to the encoder."
    )
    return section("reading", "How to read this", paragraph(labels, control, collapse))


def details(run: Run) -> Html:
    """Recipe, environment, settings of the scores, data and commands, folded away."""
    parts = [
        folded("Recipe", table(_flat(run.recipe), "Every setting of this run")),
        folded("Environment", table(_environment(run), "What it ran on")) if run.start else "",
        *(
            folded(f"Score: {protocol_title(score)}", table(_flat(score), "As written in scores.jsonl"))
            for score in run.scores
        ),
        folded("How to reproduce", *_reproduce(run)),
    ]
    return section("details", "Details", *parts)


def _flat(record: Record, prefix: str = "") -> list[tuple[str, str]]:
    """Nested objects as dotted names, one row each."""
    rows: list[tuple[str, str]] = []
    for key, value in record.items():
        name = f"{prefix}{key}"
        rows += _flat(value, f"{name}.") if isinstance(value, dict) and value else [(name, plain(value))]
    return rows


def _environment(run: Run) -> list[tuple[str, str]]:
    start = {key: value for key, value in run.start.items() if key not in ("event", "skipped")}
    skipped = run.start.get("skipped")
    rows = _flat(start)
    if isinstance(skipped, list):
        rows += [(f"skipped file {place}", plain(item)) for place, item in enumerate(skipped, 1)]
    return rows


def _reproduce(run: Run) -> list[Html]:
    recipe, commit = run.recipe, run.start.get("commit")
    # Commands are there to be copied, so nothing out of a file may become one.
    known = _COMMIT.fullmatch(str(commit))
    lines = [f"git checkout {known[1]}"] if known else []
    lines += [_pretrain_command(recipe, run), run.command("evaluate"), run.command("report")]
    about = "Every setting is given, so that it does not matter if a default changes."
    if str(commit).endswith("-dirty"):
        about += " The code had changes that were not committed, so the commit alone may not give the same result."
    return [element("pre", element("code", "\n".join(lines))), paragraph(about)]


def _pretrain_command(recipe: Record, run: Run) -> str:
    fields = {key: value for key, value in recipe.items() if key not in ("name", "hash", "settings", "lengthened")}
    given = {**fields, **mapping(recipe.get("settings"))}
    options = [_option(key.replace("_", "-"), value) for key, value in given.items()]
    place = f"--run {shlex.quote(str(run.path))}-again"
    return " ".join(["hardpair pretrain", shlex.quote(str(recipe.get("name", ""))), *options, place])


def _option(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return shlex.quote(f"--{name}" if value else f"--no-{name}")
    return f"{shlex.quote(f'--{name}')} {shlex.quote(str(value))}"
