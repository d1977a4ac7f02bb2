"""The commands that repeat a run and its scores, to be copied into a shell."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

from hardpair.report.markup import METHOD_NAMES, Html, element, numeric, paragraph
from hardpair.report.run_files import Record, RunFiles, mapping

NOT_OPTIONS = ("name", "hash", "settings", "lengthened")
_COMMIT = re.compile(r"([0-9a-f]{7,64})(-dirty)?")
_PUBLISHED_RATES = 7  # of the published grid of transfer; the short one has two


def how_to_reproduce(run: RunFiles) -> list[Html]:
    """The commands, and what else decides whether the result will be the same."""
    lines = [shlex.join(words) for words in commands(run)]
    notes = ["Every setting is given, so that it does not matter if a default changes."]
    method = str(run.recipe.get("method"))
    if method not in (*METHOD_NAMES, "imported"):
        notes.append(f" Put the file that defines {method} in the place of FILE.py.")
    if len(_lengths(run)) > 1:
        notes.append(" The run was lengthened; it repeats exactly if it was finished each time before that.")
    # Only what looks like a commit is shown as one: the file may hold anything.
    if known := _COMMIT.fullmatch(str(run.start.get("commit"))):
        changed = ", with changes that were not committed" if known[2] else ""
        notes.append(f" The run was made with commit {known[1]} of hardpair{changed}.")
    return [element("pre", element("code", "\n".join(lines))), paragraph(*notes)]


def commands(run: RunFiles) -> list[list[str]]:
    """Train the same recipe in a folder of its own, measure each score again, write the page."""
    folder = run.path if run.path.name not in ("", "..") else run.path.resolve()
    target = f"{folder}-again"
    if run.recipe.get("method") == "imported":  # its weights decide the folder
        source = [str(run.recipe.get("name")), *_encoder_of(run)]
        return [["hardpair", "evaluate", *source, *_evaluate_options(score, run)] for score in run.scores]
    processes = numeric(run.start.get("processes")) or 1
    together = ["torchrun", "--nproc-per-node", f"{processes:.0f}", "-m", "hardpair", "--"]
    train = [*(together if processes > 1 else ["hardpair"]), "pretrain"]
    first, *longer = _lengths(run)
    return [
        [*train, *_pretrain_options(run, first), "--run", target],
        *([*train, *_pretrain_options(run, epochs), "--run", target, "--resume"] for epochs in longer),
        *(["hardpair", "evaluate", target, *_evaluate_options(score, run)] for score in run.scores),
        ["hardpair", "report", target],
    ]


def _encoder_of(run: RunFiles) -> list[str]:
    """A file of weights may not show what encoder it belongs to; timm's names do."""
    return [] if str(run.recipe.get("name")).startswith("timm:") else _option("encoder", run.recipe.get("encoder"))


def _lengths(run: RunFiles) -> list[Any]:
    """Epochs of the run, and before it those that it had until it was lengthened."""
    lengthened = run.recipe.get("lengthened")
    before = [mapping(change).get("from_epochs") for change in lengthened] if isinstance(lengthened, list) else []
    return [*before, run.recipe.get("epochs")]


def _pretrain_options(run: RunFiles, epochs: Any) -> list[str]:
    """The recipe by name, then every field and setting, then where it ran: threads decide how sums are rounded."""
    fields = {key: value for key, value in run.recipe.items() if key not in NOT_OPTIONS}
    if "method" in fields and str(fields["method"]) not in METHOD_NAMES:
        fields["method"] = f"FILE.py:{fields['method']}"
    given = {**fields, **({} if epochs is None else {"epochs": epochs}), **mapping(run.recipe.get("settings"))}
    options = [word for key, value in given.items() for word in _option(key, value)]
    return [str(run.recipe.get("name", "demo")), *options, *_opening(run.start), *_machine(run)]


def _evaluate_options(score: Record, run: RunFiles) -> Iterator[str]:
    """The protocol, its images and its settings."""
    protocol, recipe = str(score.get("protocol")), run.recipe
    yield from ("--protocol", protocol)
    if protocol != "transfer" and "source" in score:
        yield from _option("data", score["source"])
    # Encoders for small images see the images of the run; of the others it depends on the size of their views.
    plain = recipe.get("small_images") is not False and recipe.get("method") != "imported"
    if "image_size" in score and not (plain and score["image_size"] == recipe.get("image_size")):
        yield from _option("image_size", score["image_size"])
    if "precision" in score:
        yield from _option("precision", score["precision"])
    if score.get("on") == "validation":
        yield from ("--on", "validation")
    yield from _opening(score)
    yield from _machine(run)
    for name, value in _protocol_options(protocol, mapping(score.get("settings"))).items():
        yield from _option(name, value)


def _protocol_options(protocol: str, settings: Record) -> Record:
    """The options of `hardpair evaluate` that give these settings; the others have one value only."""

    def given(*names: str) -> Record:
        return {name: settings[name] for name in names if settings.get(name) is not None}

    match protocol:
        case "knn":
            return given("k", "temperature")
        case "linear" if settings.get("form") == "augmented":
            return {"augmented": True, **given("epochs", "batch_size")}
        case "semi" | "distill":
            learner = given("learner", "learner_width") if settings.get("learner") else {}
            teaching = {**learner, **given("learner_epochs", "learner_batch_size")} if protocol == "distill" else {}
            return {
                **given("labels", "preset", "subset_seed", "batch_size"),
                **_fine_tuning_epochs(settings),
                **teaching,
            }
        case "transfer":
            return {"sets": settings.get("set"), **(_grid(settings) if settings.get("form") == "finetune" else {})}
    return {}


def _fine_tuning_epochs(settings: Record) -> Record:
    """The length, where it is not the preset's: then it is one, and the same for few labels."""
    epochs = settings.get("epochs")
    chosen = isinstance(epochs, list) and len(epochs) == 1 and epochs == settings.get("epochs_with_few")
    return {"epochs": epochs[0]} if chosen and isinstance(epochs, list) else {}


def _grid(settings: Record) -> Record:
    rates = settings.get("rates")
    published = isinstance(rates, list) and len(rates) == _PUBLISHED_RATES
    return {"finetune": True, "grid": "published" if published else "short", "steps": settings.get("steps")}


def _opening(facts: Record) -> list[str]:
    """Where downloaded sets are kept, if it is not the usual place, and how many files could be left out."""
    unusual = {"data_root": ("data", None), "skip_broken": (0, None)}
    return [
        word for name, usual in unusual.items() if facts.get(name) not in usual for word in _option(name, facts[name])
    ]


def _machine(run: RunFiles) -> list[str]:
    device, threads = run.start.get("device"), run.start.get("threads")
    kind = [] if device is None else _option("device", str(device).partition(":")[0])
    return [*kind, *([] if threads is None or kind[1:] != ["cpu"] else _option("threads", threads))]


def _option(name: str, value: Any) -> list[str]:
    word = f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        return [word if value else f"--no-{word[2:]}"]
    return [word, str(value)]
