"""Makes run folders with chosen scores for the paper's tables, and reads the tables back from the page."""

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from fake_run import write_lines

Table = tuple[str, str, list[tuple[str, ...]]]  # "published" or "measured", title, headings and rows
SCORED = {
    "on": "test", "image_size": 32, "step": 310,
    "data": {
        "train": {"name": "photos/train", "images": 5000, "digest": "a1" * 32},
        "test": {"name": "photos/test", "images": 1000, "digest": "e5" * 32},
    },
}  # fmt: skip
RECIPE = {
    "name": "mine", "hash": "5f0c2a9d", "data": "photos", "image_size": 32, "encoder": "resnet18", "width": 0.5,
    "small_images": True, "epochs": 10, "batch_size": 160, "seed": 0, "settings": {},
}  # fmt: skip


def top(top1: float, top5: float = 91.23) -> dict[str, float]:
    return {"top1": top1, "top5": top5}


def score(
    protocol: str, metrics: dict[str, float], settings: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    control = {name: value / 2 for name, value in metrics.items()}
    return {**SCORED, "protocol": protocol, "settings": settings or {}, "metrics": metrics, "control": control, **more}


def transfer(name: str, form: str, metric: str, value: float) -> dict[str, Any]:
    return score("transfer", {metric: value}, {"set": name, "form": form, "metric": metric})


def write_run(folder: Path, method: str, *scores: dict[str, Any], **fields: Any) -> Path:
    folder.mkdir(parents=True)
    settings = {"tau": 0.5} if method == "hnpm" else {}
    recipe = {**RECIPE, "method": method, "settings": settings, **fields}
    (folder / "recipe.json").write_text(json.dumps(recipe), encoding="utf-8")
    write_lines(folder / "scores.jsonl", list(scores))
    return folder


def for_every_table(folder: Path) -> list[Path]:
    """Something measured for every table."""
    shares = [score("semi", top(21.0), {"labels": labels}) for labels in (0.01, 0.1)]
    sets = [transfer("cars", form, "top1", 31.0) for form in ("linear", "finetune")]
    scores = [score("linear", top(41.0)), *shares, *sets]
    wide = {"encoder": "resnet50", "width": 4.0}
    long = {"tau": 0.5, "a_setting_with_a_name_that_is_long": "and a value that is longer than the name"}
    return [
        *(write_run(folder / str(seed), "hnpm", *scores, seed=seed) for seed in range(2)),
        write_run(folder / "wide", "byol", *scores[:3], **wide),
        write_run(folder / "long", "hnpm", scores[0], settings=long),
    ]


class _Tables(HTMLParser):
    """Every table of the page, under the table of the paper to which it belongs."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[int, list[Table]] = {}
        self.kind = ""
        self.cell: list[str] | None = None

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        classes = (given.get("class") or "").split()
        if tag == "section":
            self.number = (given["aria-labelledby"] or "").removeprefix("table-")
        if "card" in classes:
            self.kind = classes[-1]
        if tag == "h3" or tag in ("th", "td"):
            self.cell = []
        if tag == "table":
            self.found.setdefault(int(self.number), []).append((self.kind, self.title, []))
        if tag == "tr":
            self.row: list[str] = []

    def handle_data(self, data: str) -> None:
        if self.cell is not None:
            self.cell.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag == "h3":
            self.title, self.cell = "".join(self.cell or []), None
        if tag in ("th", "td"):
            self.row.append("".join(self.cell or []))
            self.cell = None
        if tag == "tr":
            self.found[int(self.number)][-1][2].append(tuple(self.row))


def tables(page: Path) -> dict[int, list[Table]]:
    """Number of the paper's table → the tables shown for it."""
    reader = _Tables()
    reader.feed(page.read_text(encoding="utf-8"))
    return reader.found


def measured(page: Path, number: int, place: int = 0) -> dict[str, tuple[str, ...]]:
    """The cells of one measured table by the name of the row, headings included."""
    found = [rows for kind, _, rows in tables(page)[number] if kind == "measured"]
    return {row[0]: row[1:] for row in found[place]} if found else {}
