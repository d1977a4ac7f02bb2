"""The figures of runs, each with all that decides where it stands and with which others it may be averaged."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hardpair.report.files import Record, Run, mapping, read_run
from hardpair.report.opening import ending
from hardpair.report.paper.places import COLUMN_SETTINGS, Place, places
from hardpair.report.paper.scale import (
    SCALE_FIELDS,
    Scale,
    one_line,
    recipe_shape,
    scale_of,
    shape_in_words,
    stream_width,
)
from hardpair.report.words import numeric

_RANDOM = "random encoder"
_OWN_ENCODERS = {"cmc": "random encoder of CMC's form", "cpc": "random encoder of CPC's form"}
RANDOMS = frozenset({_RANDOM, *_OWN_ENCODERS.values()})
"""The rows of encoders that learned nothing."""

_NOT_VARIANTS = SCALE_FIELDS | {"name", "hash", "seed", "method", "settings"}

Facts = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Entry:
    """One figure of one run."""

    place: Place
    scale: Scale
    row: str  # method, or one of RANDOMS
    distilled: bool
    recipe: str  # its name
    variant: Facts  # what the recipe sets, but for scale, method and seed
    settings: Facts  # of the protocol, and which images it used
    seed: str
    value: float


def read_entries(runs: Sequence[Path]) -> tuple[list[Entry], list[str]]:
    """The figures of all runs, and in words what was left out."""
    entries: list[Entry] = []
    notes: list[str] = []
    seen: set[Path] = set()
    for path in runs:
        if path.resolve() in seen:
            notes.append(f"{one_line(str(path))} was given twice and counts once.")
            continue
        seen.add(path.resolve())
        found, said = _of_run(read_run(path))
        entries += found
        notes += [f"{one_line(str(path))}: {text}" for text in said]
    return entries, notes


def _of_run(run: Run) -> tuple[list[Entry], list[str]]:
    tested = [score for score in run.scores if score.get("on") == "test" and places(run.recipe, score)]
    notes = [text for text in run.notes if text.startswith("scores.jsonl")]
    again = f"{one_line(run.command('evaluate'))} measures"
    if not tested:
        return [], [*notes, f"no test score that these tables have a place for; {again} one."]
    if ending(run):
        return [], [*notes, "training did not come to its end, so its scores are left out."]
    current = [score for score in tested if _is_current(run, score)]
    if stale := len(tested) - len(current):
        what = "a score" if stale == 1 else f"{stale} scores"
        notes.append(f"{what} of another recipe or an earlier step left out; {again} again.")
    return [entry for score in current for entry in _of_score(run.recipe, score)], notes


def _is_current(run: Run, score: Record) -> bool:
    """Whether the score is of the encoder that the folder holds now; what the files do not say counts as agreeing."""
    end = next((line.get("step") for line in reversed(run.events("end"))), None)
    pairs = [(score.get("recipe_hash"), run.recipe.get("hash")), (score.get("step"), end)]
    return all(one is None or other is None or one == other for one, other in pairs)


def _of_score(recipe: Record, score: Record) -> Iterator[Entry]:
    """The figures of the encoder and of the random one beside it."""
    method = one_line(recipe.get("method", "unnamed method"))
    random = _OWN_ENCODERS.get(method, _RANDOM)  # two streams or patches: not the encoder that the others share
    for place in places(recipe, score):
        streams = _streams(recipe)
        variant = (*_variant(recipe, leave_out="tau" if place.table == 7 else None), *streams)
        for row, facts, measured in ((method, variant, "metrics"), (random, streams, "control")):
            value = numeric(mapping(score.get(measured)).get(place.metric))
            if value is not None:
                yield Entry(
                    place=place,
                    scale=scale_of(recipe, score),
                    row=row,
                    distilled=score.get("protocol") == "distill",
                    recipe=one_line(recipe.get("name", "unnamed recipe")),
                    variant=facts,
                    settings=_settings(recipe, score),
                    seed=one_line(recipe.get("seed", score.get("seed"))),
                    value=value,
                )


def _variant(recipe: Record, leave_out: str | None) -> Facts:
    fields = {name: value for name, value in recipe.items() if name not in _NOT_VARIANTS}
    chosen = {name: value for name, value in mapping(recipe.get("settings")).items() if name != leave_out}
    return tuple((one_line(name), one_line(value)) for name, value in sorted({**fields, **chosen}.items()))


def _streams(recipe: Record) -> Facts:
    """The shape of a scale does not tell two streams of half a ResNet from two whole ones."""
    width = stream_width(recipe)
    return () if width is None else (("width of a stream", f"{width:g}"),)


def _settings(recipe: Record, score: Record) -> Facts:
    protocol, data = str(score.get("protocol")), mapping(score.get("data"))
    facts = {f"{part} images": str(mapping(data.get(part)).get("digest", ""))[:12] for part in ("train", "test")}
    if protocol == "distill":
        facts["taught by"] = shape_in_words(recipe_shape(recipe))
    for name, value in mapping(score.get("settings")).items():
        if name not in COLUMN_SETTINGS.get(protocol, ()):
            facts[f"{protocol} {name}"] = value
    return tuple((one_line(name), one_line(value)) for name, value in sorted(facts.items()))
