"""The model card: what an encoder learned from and how, how good it is, how to show pictures to it, how to load it."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hardpair.embeddings.tuned_folder import NAME as FINETUNED
from hardpair.errors import printable
from hardpair.exporters.check import COUNT, Checked
from hardpair.exporters.material import Made, Material, described, loading_from
from hardpair.models.exported import is_export, read_export
from hardpair.report.markup import numeric
from hardpair.report.run_files import mapping, read_run
from hardpair.report.scores import HEADINGS, table_rows, what_was_done

SAMPLE, FILL_IN = "sample", "fill in before you publish"
SETTINGS = (
    "method", "data", "image_size", "view_size", "epochs", "batch_size", "optimiser", "learning_rate",
    "weight_decay", "schedule", "warmup_epochs", "precision", "seed", "settings", "hash",
)  # fmt: skip
"""Of a recipe, what a card shows."""


def about(source: str, step: int) -> dict[str, Any]:
    """What is known of an encoder: a sentence, the recipe and the scores, with those of a random encoder."""
    folder = Path(source)
    if folder.is_dir() and is_export(folder):
        return dict(read_export(folder).about)
    if not folder.is_dir():
        name = source if source.startswith("timm:") else folder.name
        return {"sentence": f"Weights from {name}, not trained here", "recipe": {}, "scores": []}
    run = read_run(folder)
    if run.recipe.get("name") == FINETUNED:
        start = Path(str(run.recipe.get("from", "an unnamed encoder"))).name
        return {"sentence": f"Fine-tuned with labels by hardpair classify, from {start}", "recipe": {}, "scores": []}
    scores = [score for score in run.scores if score.get("step", step) == step]
    rows = [list(row) for score in scores for row in table_rows(score)]
    names = {key: Path(str(run.recipe.get(key, ""))).name for key in ("data", "name")}
    run = replace(run, recipe={**run.recipe, **names})  # a card is for others, whom no path concerns
    recipe = {name: run.recipe[name] for name in SETTINGS if name in run.recipe}
    return {"sentence": what_was_done(run), "recipe": recipe, "scores": rows}


def training_images(source: str) -> str:
    """Where those of a run are; the bundled ones where nobody says."""
    folder = Path(source)
    known = read_run(folder).recipe.get("data") if folder.is_dir() and not is_export(folder) else None
    return known if isinstance(known, str) else SAMPLE


def write_card(folder: Path, name: str, form: str, made: Made, material: Material, checked: Checked) -> None:
    """README.md of an export, called ``name`` once it is in place."""
    facts = json.loads((folder / "config.json").read_text("utf-8"))["hardpair"]["about"]
    parts = [
        _front(form, made, material),
        f"# {_plain(name)}",
        f"{_plain(facts.get('sentence', ''))}. The encoder is a {described(material.settings)}; {_outputs(material)}.",
        "## Load it",
        f"In the folder that holds `{_code(name)}`:",
        "```python\n" + "\n".join(loading_from(name, made.lines)) + "\n```",
        *_hub(form, made, name),
        "## Pictures",
        _pictures(made, material),
        *_head(material),
        *_scores(facts),
        *_recipe(facts),
        "## Checked",
        _check(checked),
        "## Licence",
        "**To fill in**: the licence of these weights is not known here. It may depend on that of the pictures.",
    ]
    (folder / "README.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8", errors="replace")


def _check(checked: Checked) -> str:
    return (
        f"Loaded as above, in a process without hardpair, on {COUNT} pictures ({_plain(checked.pictures)}) at batches "
        f"of {', '.join(map(str, checked.by_batch))}: the outputs differ from those of the encoder by at most "
        f"{checked.difference:.1e} of their root mean square."
    )


def _front(form: str, made: Made, material: Material) -> str:
    """What the Hugging Face hub reads."""
    task = "image-classification" if material.head else "image-feature-extraction"
    lines = [f"license: other  # {FILL_IN}", f"license_name: unknown  # {FILL_IN}", f"library_name: {made.library}"]
    return "\n".join(["---", *lines, f"pipeline_tag: {task}", "tags:", f"- {form}", "- hardpair", "---"])


def _outputs(material: Material) -> str:
    if material.head:
        return f"with its linear head it gives {material.outputs:,} logits, whose softmax is calibrated"
    return f"it gives {material.outputs:,} features"


def _hub(form: str, made: Made, name: str) -> list[str]:
    if form != "huggingface":
        return []
    upload = f"After `hf upload YOU/NAME {_code(name)}`"
    if made.library == "timm":
        return [f"{upload}: `timm.create_model('hf-hub:YOU/NAME', pretrained=True)`; transformers reads it, too."]
    return [f"{upload}: `huggingface_hub.snapshot_download('YOU/NAME')` gives the folder again."]


def _pictures(made: Made, material: Material) -> str:
    square, size = material.embedder.square, material.size
    steps = [f"the centre square of the picture, RGB, reduced to {square} px (bicubic, antialiased)"]
    if material.crop < 1:
        room = round(square * material.crop)
        steps.append(
            f"its centre of {room} px" + (f", reduced to {size} px (bilinear, antialiased)" if room != size else "")
        )
    elif square != size:
        steps.append(f"reduced to {size} px (bilinear, antialiased)")
    resized = int(size / material.crop)
    nearest = f"Resize({resized}, interpolation=BICUBIC), CenterCrop({size})"
    numbers = f"mean {_numbers(material.mean)} and standard deviation {_numbers(material.std)}"
    then = (
        "The pixels go in as they are, uint8; the graph normalises them."
        if made.takes == "pixels"
        else f"Then values from 0 to 1, normalised by {numbers}."
    )
    return (
        f"In training and evaluation: {'; then '.join(steps)}. {then} "
        f"Nearest in torchvision's transforms (timm makes the same from its config): `{nearest}`."
    )


def _numbers(values: Sequence[float]) -> str:
    return f"({', '.join(f'{value:g}' for value in values)})"


def _head(material: Material) -> list[str]:
    if material.head is None:
        return []
    names = [f"{place}. {_plain(name)}" for place, name in enumerate(material.classes)]
    known = {name: numeric(value) for name, value in material.head.facts.items()}
    facts = [f"{_plain(name)}: {value:g}" for name, value in known.items() if value is not None]
    shown = names if len(names) <= 100 else [*names[:100], f"… all {len(names):,} are in config.json, `label_names`"]
    return ["## Classes", "\n".join(shown), *(["Of the head: " + ", ".join(facts) + "."] if facts else [])]


def _scores(facts: Mapping[str, Any]) -> list[str]:
    known = facts.get("scores")
    rows = (
        [row for row in known if isinstance(row, list) and len(row) == len(HEADINGS)] if isinstance(known, list) else []
    )
    if not rows:
        return ["## Scores", "None were measured: `hardpair evaluate` does so, beside a random encoder."]
    lead = "By `hardpair evaluate`; *random* is an encoder of the same shape that learned nothing, measured alike."
    return ["## Scores", lead, _table(HEADINGS, rows)]


def _recipe(facts: Mapping[str, Any]) -> list[str]:
    recipe = mapping(facts.get("recipe"))
    rows = [[name, value if isinstance(value, str) else json.dumps(value)] for name, value in recipe.items()]
    return ["## Recipe", _table(("field", "value"), rows)] if rows else []


def _table(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(
        "| " + " | ".join(_plain(cell) if i != 1 else cell for cell in row) + " |" for i, row in enumerate(lines)
    )


def _plain(text: Any) -> str:
    """Words that Markdown and HTML leave alone, in one line: names of data and classes can be anything."""
    return re.sub(r"([\\`*\[\]<>|~])", r"\\\1", printable(str(text)))


def _code(text: str) -> str:
    return printable(text).replace("`", "'")
