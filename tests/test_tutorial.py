"""The tutorial to a classifier, as commands and as a notebook, on bundled photos with one epoch."""

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from PIL import Image
from test_docs import DOCS, README, ROOT, blocks, run_shell, smaller

from hardpair.data import open_images

PAGE, NOTEBOOK = DOCS / "tutorial-classifier.md", DOCS / "tutorial-classifier.ipynb"
PHOTOS = 300


def cells() -> list[str]:
    """The code of the notebook."""
    notebook = json.loads(NOTEBOOK.read_text())
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def write_photos(folder: Path, split: str, names: Sequence[str]) -> dict[str, str]:
    """Bundled photos of all classes as files; returns the class of each, by the end of its name."""
    images = open_images(f"sample:{PHOTOS}", split, size=32, root=Path("data"))
    known = {}
    for place, name in enumerate(names):
        row = place * len(images) // len(names)
        label = images.classes[int(images.labels[row])]
        file = folder / name.format(place + 1, label=label)
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(images.pixels[row].permute(1, 2, 0).numpy()).save(file, quality=95)
        known[file.name] = label
    return known


@pytest.fixture
def truth(tmp_path: Path) -> dict[str, str]:
    """path/to/album without labels, path/to/new with a folder per class; the classes of the album."""
    write_photos(tmp_path / "path/to/new", "test", ["{label}/{:05}.png"] * 60)
    return write_photos(tmp_path / "path/to/album", "train", ["IMG_{:05}.JPEG"] * PHOTOS)


def label(table: Path, truth: dict[str, str]) -> None:
    """What a person does between two steps, once there is a table to fill in."""
    if not table.exists():
        return
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    if any(row["label"] for row in rows):
        return
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows({**row, "label": truth[row["filename"]]} for row in rows)


def require_all(place: Path, truth: dict[str, str]) -> dict[str, dict[str, str]]:
    """Everything that the tutorial says is there; returns the predictions."""
    for page in ("map", "clean", "search", "select", "predictions"):
        assert (place / f"emb/{page}.html").read_text().startswith("<!doctype html>")
    kept = (place / "keep.txt").read_text().splitlines()
    assert PHOTOS // 2 < sum(name.endswith(".JPEG") for name in kept) <= PHOTOS
    config = json.loads((place / "classifier/config.json").read_text())
    assert config["label_names"] == sorted(set(truth.values()))
    with (place / "new.csv").open(newline="") as file:
        new = list(csv.DictReader(file))
    assert len(new) == 60
    assert [row["given"] for row in new] == [row["filename"].partition("/")[0] for row in new]
    with (place / "emb/predictions.csv").open(newline="") as file:
        predicted = {row["filename"]: row for row in csv.DictReader(file)}
    assert predicted.keys() == truth.keys()
    given = {name: row["given"] for name, row in predicted.items() if row["given"]}
    assert len(given) == 100
    assert all(truth[name] == word for name, word in given.items())
    return predicted


def agrees(row: dict[str, str], word: str) -> bool:
    """Whether it is what was predicted; libraries decode JPEG a little differently, which may turn near ties."""
    return word == row["label"] or (float(row["margin"]) < 0.05 and word == row["second"])


@pytest.mark.slow
def test_the_commands_of_the_tutorial_run(tmp_path, truth, monkeypatch, capsys):
    shell = [block for block in blocks(PAGE, "sh") if "pip install" not in block]
    verbs = re.findall(r"^hardpair (\w+)", "\n".join(shell), re.MULTILINE)
    wanted = ["pretrain", "embed", "map", "clean", "search", "select", "classify", "export"]
    assert [*dict.fromkeys(verbs)] == wanted
    for block in shell:
        run_shell(smaller(block), tmp_path)
        label(tmp_path / "emb/select.csv", truth)
    predicted = require_all(tmp_path, truth)
    monkeypatch.chdir(tmp_path)
    (without,) = blocks(PAGE, "python")
    assert "hardpair" not in without
    exec(without, {})
    assert agrees(predicted["IMG_00012.JPEG"], capsys.readouterr().out.strip())


@pytest.mark.slow
def test_the_cells_of_the_notebook_run(tmp_path, truth, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for cell in cells():
        exec(smaller(cell), names)
        label(tmp_path / "emb/select.csv", truth)
    predicted = require_all(tmp_path, truth)
    assert len(names["photos"]) == 10
    for photo in names["photos"]:
        assert agrees(predicted[photo.name], names["classify"](photo)), photo


def test_the_notebook_is_one():
    """As nbformat 4.5 has it; without outputs, which would have the paths of who ran it."""
    notebook = json.loads(NOTEBOOK.read_text())
    assert notebook.keys() == {"cells", "metadata", "nbformat", "nbformat_minor"}
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert notebook["metadata"]["kernelspec"].keys() == {"display_name", "language", "name"}
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[\w-]{1,64}", name) for name in ids)
    for cell in notebook["cells"]:
        code = {"execution_count", "outputs"} if cell["cell_type"] == "code" else set()
        assert cell.keys() == {"cell_type", "id", "metadata", "source"} | code
        assert cell["cell_type"] in ("code", "markdown")
        assert all(line.endswith("\n") for line in cell["source"][:-1])
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


def test_page_and_notebook_have_the_same_steps():
    notebook = json.loads(NOTEBOOK.read_text())
    text = "".join("".join(cell["source"]) + "\n" for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    steps = re.findall(r"^## (\d\. .*)", PAGE.read_text(), re.MULTILINE)
    assert len(steps) == 7
    assert re.findall(r"^## (.*)", text, re.MULTILINE) == steps


def test_both_are_linked_where_one_begins():
    for page in (README, DOCS / "index.md", DOCS / "tutorial.md"):
        for target in (PAGE, NOTEBOOK):
            assert f"{target.name})" in page.read_text(), f"{page}: {target.name}"
    assert (ROOT / "mkdocs.yml").read_text().count(PAGE.name) == 1
