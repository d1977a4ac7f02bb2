"""The figures of runs, each with its place in the paper's tables and with all that it must share to be averaged."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardpair.errors import printable
from hardpair.report.markup import count, numeric, plain
from hardpair.report.paper.published import TABLES, Shape
from hardpair.report.run_files import Record, RunFiles, mapping, read_run

SCALE_FIELDS = frozenset({"data", "epochs", "encoder", "width", "sk", "small_images", "image_size"})
"""Fields of a recipe that are part of the scale."""

COLUMN_SETTINGS = {"semi": {"labels"}, "distill": {"labels"}, "transfer": {"set", "form", "metric"}}
"""Settings of a score that say in which column it stands, by protocol."""

_OTHER_ENCODERS = {row.shape for table in TABLES for row in table.rows if row.about} - {("resnet50", 1.0, False)}
_SHARES = {0.01: "1 %", 0.1: "10 %"}
_METRICS = {"top1": "Top-1", "top5": "Top-5"}
_FORMS = {"linear": 5, "finetune": 6}
_SETS = {
    "food101": ("Food101", "top1"),
    "cifar10": ("CIFAR-10", "top1"),
    "sun397": ("SUN397", "top1"),
    "cars": ("Cars", "top1"),
    "pets": ("Pets", "mean_per_class"),
    "voc2007": ("VOC 2007", "map11"),
    "flowers102": ("Flowers", "mean_per_class"),
}
_RANDOM = "randomly initialised"
_OWN_ENCODERS = {"cmc": "randomly initialised, CMC's form", "cpc": "randomly initialised, CPC's form"}
RANDOMS = frozenset({_RANDOM, *_OWN_ENCODERS.values()})
"""The rows of encoders that learned nothing."""

_NOT_VARIANTS = SCALE_FIELDS | {"name", "hash", "seed", "method", "settings"}

STREAM = "width of a stream"  # among the facts of an encoder that has two
Facts = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Scale:
    """What was pretrained on what, for how long, and where it was tested."""

    data: str
    epochs: str
    shape: Shape
    small_images: bool
    image_size: str
    test: str  # empty where the columns of the table say it

    def in_words(self) -> str:
        """The whole of it as two sentences."""
        stem = ", stem for small images" * self.small_images
        tested = f"Tested on {self.test} at {self.image_size} px" if self.test else f"Tested at {self.image_size} px"
        epochs = f"{self.epochs} epoch{'s' * (self.epochs != '1')}"
        return f"{tested}. {shape_in_words(self.shape)}{stem}, trained on {self.data} for {epochs}."


@dataclass(frozen=True)
class Cell:
    """A column of a table, and the metric that belongs there."""

    table: int
    column: str
    metric: str


@dataclass(frozen=True)
class Entry:
    """One figure of one run."""

    cell: Cell
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


def _of_run(run: RunFiles) -> tuple[list[Entry], list[str]]:
    tested = [score for score in run.scores if score.get("on") == "test" and cells(run.recipe, score)]
    notes = [text for text in run.notes if text.startswith("scores.jsonl")]
    again = f"{one_line(run.evaluate_command)} measures"
    if not tested:
        return [], [*notes, f"no test score that these tables have a place for; {again} one."]
    if run.ending:
        return [], [*notes, "training did not come to its end, so its scores are left out."]
    current = [score for score in tested if _is_current(run, score)]
    if stale := len(tested) - len(current):
        what = "a score" if stale == 1 else f"{stale} scores"
        notes.append(f"{what} of another recipe or an earlier step left out; {again} again.")
    return [entry for score in current for entry in _of_score(run.recipe, score)], notes


def _is_current(run: RunFiles, score: Record) -> bool:
    """Whether the score is of the encoder that the folder holds now; what the files do not say counts as agreeing."""
    end = next((line.get("step") for line in reversed(run.events("end"))), None)
    pairs = [(score.get("recipe_hash"), run.recipe.get("hash")), (score.get("step"), end)]
    return all(one is None or other is None or one == other for one, other in pairs)


def _of_score(recipe: Record, score: Record) -> Iterator[Entry]:
    """The figures of the encoder and of the randomly initialised one beside it."""
    method = one_line(recipe.get("method", "unnamed method"))
    random = _OWN_ENCODERS.get(method, _RANDOM)  # two streams or patches: not the encoder that the others share
    for cell in cells(recipe, score):
        streams = _streams(recipe)
        variant = (*_variant(recipe, leave_out="tau" if cell.table == 7 else None), *streams)
        for row, facts, measured in ((method, variant, "metrics"), (random, streams, "control")):
            value = numeric(mapping(score.get(measured)).get(cell.metric))
            if value is not None:
                yield Entry(
                    cell=cell,
                    scale=scale_of(recipe, score),
                    row=row,
                    distilled=score.get("protocol") == "distill",
                    recipe=one_line(recipe.get("name", "unnamed recipe")),
                    variant=facts,
                    settings=_settings(recipe, score),
                    seed=one_line(recipe.get("seed", score.get("seed"))),
                    value=value,
                )


_NEWER: Record = {"precision": "float32", "micro_batch": 0, "zero_init": False, "decay_norms": False, "drop_path": 0.0}
_NEWER |= {"init": "", "init_may_miss": ""}
"""Fields that older recipes lack, with the values that those have."""


def _variant(recipe: Record, leave_out: str | None) -> Facts:
    fields = {name: value for name, value in recipe.items() if name not in _NOT_VARIANTS}
    fields = {name: value for name, value in fields.items() if name not in _NEWER or value != _NEWER[name]}
    chosen = {name: value for name, value in mapping(recipe.get("settings")).items() if name != leave_out}
    return tuple((one_line(name), one_line(value)) for name, value in sorted({**fields, **chosen}.items()))


def _streams(recipe: Record) -> Facts:
    """The shape of a scale does not tell two streams of half a ResNet from two whole ones."""
    width = stream_width(recipe)
    return () if width is None else ((STREAM, f"{width:g}"),)


def _settings(recipe: Record, score: Record) -> Facts:
    protocol, data = str(score.get("protocol")), mapping(score.get("data"))
    facts = {f"{part} images": str(mapping(data.get(part)).get("digest", ""))[:12] for part in ("train", "test")}
    if protocol == "distill":
        facts["taught by"] = shape_in_words(recipe_shape(recipe))
    for name, value in mapping(score.get("settings")).items():
        if name not in COLUMN_SETTINGS.get(protocol, ()):
            facts[f"{protocol} {name}"] = value
    return tuple((one_line(name), one_line(value)) for name, value in sorted(facts.items()))


def cells(recipe: Record, score: Record) -> list[Cell]:
    """Where the score belongs; nowhere for a protocol, a share of labels or a set that the paper does not have."""
    settings = mapping(score.get("settings"))
    others = shape_of(recipe, score) in _OTHER_ENCODERS
    match score.get("protocol"):
        case "linear":
            top = [Cell(2 if others else 1, title, metric) for metric, title in _METRICS.items()]
            return top + _by_tau(recipe)
        case "semi":
            return _by_share(4 if others else 3, settings)
        case "distill":  # the paper has it in one table only
            return _by_share(4, settings)
        case "transfer":
            return _by_set(settings)
    return []


def _by_share(table: int, settings: Record) -> list[Cell]:
    share = _SHARES.get(numeric(settings.get("labels")) or 0.0)
    return [Cell(table, f"{title} ({share})", metric) for metric, title in _METRICS.items()] if share else []


def _by_set(settings: Record) -> list[Cell]:
    """One cell of Table 5 or 6; a set evaluated by another metric than BYOL's would not be comparable."""
    table = _FORMS.get(str(settings.get("form")))
    column, metric = _SETS.get(str(settings.get("set")), ("", ""))
    return [Cell(table, column, metric)] if table and column and settings.get("metric") == metric else []


def _by_tau(recipe: Record) -> list[Cell]:
    tau = numeric(mapping(recipe.get("settings")).get("tau"))
    return [Cell(7, str(tau), "top1")] if recipe.get("method") == "hnpm" and tau is not None else []


def scale_of(recipe: Record, score: Record) -> Scale:
    """The scale of one score; transfer names its test set in the column."""
    return Scale(
        data=one_line(recipe.get("data", "an unnamed source")),
        epochs=one_line(recipe.get("epochs", "?")),
        shape=shape_of(recipe, score),
        small_images=recipe.get("small_images") is True,
        image_size=one_line(score.get("image_size", recipe.get("image_size", "?"))),
        test="" if score.get("protocol") == "transfer" else _test(score),
    )


def shape_of(recipe: Record, score: Record) -> Shape:
    """The encoder that was evaluated: that of the run, or the one that distillation made of it."""
    made = mapping(mapping(score.get("settings")).get("shape")) if score.get("protocol") == "distill" else {}
    return _shape(made, made.get("name")) if made else recipe_shape(recipe)


def recipe_shape(recipe: Record) -> Shape:
    """The encoder of the run."""
    return _shape(recipe, recipe.get("encoder"))


def _shape(fields: Record, name: Any) -> Shape:
    """The paper counts one of CMC's two streams; those of half a ResNet or less stand for it together.

    So CMC has its rows in Tables 1 and 2, where its streams are of width 1 and 2, and at small scale a row beside
    methods whose encoders are as wide as both its streams.
    """
    width, stream = _width(fields), stream_width(fields)
    counted = stream if stream is not None and width > 1 else width
    return one_line(name or "encoder"), counted, fields.get("sk") is True


def stream_width(fields: Record) -> float | None:
    """Of each of the two streams, where the encoder has two."""
    streams = fields.get("method") == "cmc" or fields.get("colour_streams") is True
    return _width(fields) / 2 if streams else None


def _width(fields: Record) -> float:
    width = numeric(fields.get("width"))
    return 1.0 if width is None else width


def shape_in_words(shape: Shape) -> str:
    """("resnet50", 2.0, False) → ResNet-50 2×."""
    name, width, kernels = shape
    depth = name.removeprefix("resnet")
    return f"{f'ResNet-{depth}' if depth.isdecimal() else name} {width:g}×{' with selective kernels' * kernels}"


def one_line(value: Any) -> str:
    """A value of a file as text that can neither break a line nor command a terminal."""
    return printable(plain(value))


def _test(score: Record) -> str:
    test = mapping(mapping(score.get("data")).get("test"))
    images = f" ({count(test['images'])} images)" if "images" in test else ""
    return one_line(test.get("name", "an unnamed set")) + images
