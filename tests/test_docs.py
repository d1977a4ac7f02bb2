"""README and docs: links lead somewhere, options exist, and code runs as it stands (with fewer epochs)."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock

import pytest
from noise_photos import write_photos

import hardpair
from hardpair import losses
from hardpair.recipes import RECIPES

ROOT = Path(__file__).parents[1]
README, DOCS = ROOT / "README.md", ROOT / "docs"
PAGES = [README, *sorted(DOCS.rglob("*.md"))]
WITHOUT_LOG = [page for page in PAGES if page.name != "log.md"]  # the log quotes commands of older versions
SMALL = {  # what makes a command of a page quick
    "--hours 0.1": "--epochs 1 --width .125",
    "hours=0.1": "epochs=1, width=1 / 8",
    "--epochs 10": "--epochs 1 --width .125",
    "epochs=10": "epochs=1, width=1 / 16",
    "epochs=20": "epochs=1, width=1 / 16",
    "pretrain demo --method": "pretrain demo --data sample:200 --epochs 1 --width .125 --method",
    "--image-size 64 --run runs/mine": "--image-size 64 --run runs/mine --epochs 1 --width .125",
    'pretrain --data "$PHOTOS" --run': 'pretrain --data "$PHOTOS" --epochs 1 --width .125 --run',
    "pretrain --data path/to/photos --run runs/mine": "pretrain --data path/to/photos --run runs/mine --epochs 1",
}


def blocks(page: Path, kind: str) -> list[str]:
    """The code blocks of a page in one language."""
    return re.findall(rf"^```{kind}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def prose(page: Path) -> str:
    """A page without its code, in which brackets are not links."""
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """What the headings of a page are called in its address."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.*)", text, re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        if page != README:
            assert target.resolve().is_relative_to(DOCS), f"{link}: the site would not have it"
        made = anchor.startswith("hardpair")  # by mkdocs, from the code; `make docs` checks those
        assert not anchor or made or anchor in anchors(target), link


def test_the_navigation_names_every_page_once():
    nav = (ROOT / "mkdocs.yml").read_text().partition("nav:")[2].partition("\ntheme:")[0]
    named = re.findall(r"[\w/-]+\.md", nav)
    assert sorted(named) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def test_the_readme_stays_short():
    lines = README.read_text().splitlines()
    assert max(map(len, lines)) <= 120
    assert len(lines) <= 170


def test_every_target_exists():
    makefile = (ROOT / "Makefile").read_text()
    for page in WITHOUT_LOG:
        code = "\n".join([*re.findall(r"`(make [^`]+)`", page.read_text()), *blocks(page, "sh")])
        for target in re.findall(r"^make ([a-z]+(?:-[a-z]+)?)", code, re.MULTILINE):
            assert f"\n{target}:" in makefile, f"{page}: {target}"


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    """scripts/docs_hooks.py, which makes pages from the code."""
    spec = importlib.util.spec_from_file_location("docs_hooks", ROOT / "scripts/docs_hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_option_in_a_command_exists(hooks):
    known: dict[str, str] = {}
    for page in WITHOUT_LOG:
        code = "\n".join([*re.findall(r"`([^`\n]+)`", page.read_text()), *blocks(page, "sh")])
        for verb, rest in re.findall(r"^hardpair ([a-z]+)([^#\n]*)", code.replace("\\\n", " "), re.MULTILINE):
            text = known.setdefault(verb, hooks.help_text(verb))
            for option in set(re.findall(r"--[a-z][\w-]*", rest)) - {"--help"}:
                # Settings of other methods than the default's are not in this help.
                assert option in text or ":MyMethod" in rest, f"{page}: hardpair {verb} {option}"


def test_pages_are_made_from_the_code(hooks):
    cli = hooks.command_line()
    for verb, option in (("pretrain", "--epochs INT"), ("evaluate", "--protocol"), ("doctor", "--data")):
        section = cli.partition(f"## hardpair {verb}\n")[2].partition("\n## ")[0]
        assert f"| <code>{option}" in section
    assert all(f"`{name}`" in hooks.recipes() for name in RECIPES)
    assert all(f"`{name}`" in hooks.methods() for name in hardpair.METHODS)


def test_the_reference_has_every_public_name():
    page = (DOCS / "reference/api.md").read_text()
    shown = set(re.findall(r"^::: ([\w.]+)$", page, re.MULTILINE))
    assert {f"hardpair.{name}" for name in hardpair.__all__} - shown == {"hardpair.METHODS"}  # is a table there
    assert {f"hardpair.losses.{name}" for name in set(losses.__all__) - set(hardpair.__all__)} <= shown
    for name in shown:
        owner, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(owner), attribute), name


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder in which path/to/photos (with classes) and path/to/album (without) are there."""
    photos = write_photos(tmp_path / "path/to/photos")
    (tmp_path / "path/to/album").mkdir()
    for number, file in enumerate(sorted(photos.glob("train/*/*.png"))[::3]):
        (tmp_path / f"path/to/album/{number}.png").symlink_to(file)
    return tmp_path


def smaller(code: str) -> str:
    """The same with fewer epochs and a small encoder."""
    for words, fewer in SMALL.items():
        code = code.replace(words, fewer)
    return code


def run_shell(script: str, folder: Path) -> None:
    """Run commands as a user would, with the tools of this environment; the first that fails ends it."""
    (folder / "bin").mkdir(exist_ok=True)
    command = folder / "bin/hardpair"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m hardpair "$@"\n')
    command.chmod(0o755)
    environment = {**os.environ, "PATH": os.pathsep.join([str(command.parent), os.environ["PATH"]])}
    done = subprocess.run(
        ["bash", "-euc", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, script + done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("page", [README, DOCS / "tutorial.md"], ids=lambda page: page.stem)
def test_a_page_runs_from_top_to_bottom(page, place, monkeypatch):
    shell = [block for block in blocks(page, "sh") if "pip install" not in block]  # installing is what .ci/run does
    assert sum("hardpair pretrain" in block for block in shell) >= 1
    for block in shell:
        run_shell(smaller(block), place)
    assert (place / "runs/mine/report.html").exists()
    monkeypatch.chdir(place)
    names: dict[str, object] = {}
    for block in (block for block in blocks(page, "python") if "MyMethod" not in block):
        exec(smaller(block), names)
    assert names["features"].shape == (300, names["encoder"].num_features)


@pytest.mark.slow
def test_the_example_of_a_method_trains(tmp_path):
    page = DOCS / "how-to/add-a-method.md"
    (source,), (commands,) = blocks(page, "python"), blocks(page, "sh")
    (tmp_path / "my_method.py").write_text(source)
    run_shell(smaller(commands), tmp_path)


def test_the_examples_of_callbacks_run(place, monkeypatch, capsys):
    """wandb is not installed here: what stands in for it takes what the example gives it."""
    (show,), (to_wandb,) = (
        [block for block in blocks(DOCS / "how-to/read-the-logs.md", "python") if word in block]
        for word in ("hp.pretrain", "import wandb")
    )
    monkeypatch.chdir(place)
    names: dict[str, object] = {}
    exec(smaller(show), names)
    out = capsys.readouterr().out
    assert "recipe: {'name': 'photos', 'method'" in out
    assert all(word in out for word in ("step 8: loss ", "views (", "pairs ("))
    wandb = MagicMock()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    exec(to_wandb, names)
    exec(smaller(show[show.index("run = ") :]).replace("runs/shown", "runs/sent").replace("=show", "=to_wandb"), names)
    called = [name for name, _, _ in wandb.method_calls]
    assert called == ["init", "Image", "log", "log", "Image", "log", "finish"]
    assert wandb.init.call_args.kwargs["config"]["epochs"] == 1


def test_the_example_of_a_loop_runs(capsys):
    (code,) = blocks(DOCS / "how-to/own-loop.md", "python")
    exec(code, {})
    assert capsys.readouterr().out.count("loss") == 3


@pytest.mark.slow
def test_the_examples_of_other_libraries_load_the_encoder(place, monkeypatch):
    page = DOCS / "how-to/use-the-encoder.md"
    run_shell(blocks(page, "sh")[0].replace("--run", "--epochs 1 --batch-size 150 --run"), place)
    monkeypatch.chdir(place)
    names: dict[str, object] = {}
    for block in (block for block in blocks(page, "python") if "onnx" not in block):
        exec(block, names)
    assert names["features"].shape == (300, 512)
