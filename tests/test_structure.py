"""The shape of the package: imports go one way, and the public names stay."""

import ast
import importlib.util
from pathlib import Path

import pytest

import hardpair
from hardpair import losses

SOURCE = Path(hardpair.__file__).parent
LAYERS = [
    "data",
    "views",
    "models",
    "losses",
    "methods",
    "recipes",
    "train",
    "evaluate",
    "report",
    "embeddings",
    "exporters",
    "sweep",
    "doctor",
    "api",
    "cli",
]
FREE = {"distributed", "errors", "files", "machine", "pixels", "precision", "protocol_settings", "text"}
MAY_IMPORT = {
    "data": set(),
    "views": set(),
    "models": set(),
    "losses": set(),
    "methods": {"views", "models", "losses"},
    "recipes": {"methods", "models"},
    "train": {"data", "views", "models", "methods", "recipes"},
    "evaluate": {"data", "views", "models", "recipes", "train"},
    "report": set(),
    "embeddings": {"data", "views", "models", "recipes", "train", "evaluate", "report"},
    "exporters": {"data", "views", "models", "embeddings", "report"},
    "sweep": {"methods", "recipes", "train", "evaluate", "data", "report"},
    "doctor": {"data", "views", "recipes", "train"},
    "api": {"data", "methods", "models", "recipes", "train", "evaluate", "report"},
    "cli": {
        "api",
        "embeddings",
        "exporters",
        "data",
        "methods",
        "recipes",
        "train",
        "evaluate",
        "report",
        "sweep",
        "doctor",
    },
}


def imported(file: Path) -> set[str]:
    """First-level parts of hardpair that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            if node.module == "hardpair":
                names |= {alias.name for alias in node.names} - {"__version__"}
            elif node.module and node.module.startswith("hardpair."):
                names.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            names |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("hardpair.")}
    return names


def test_imports_go_one_way():
    for layer in LAYERS:
        files = [SOURCE / f"{layer}.py"] if layer == "api" else sorted((SOURCE / layer).rglob("*.py"))
        assert files, layer
        for file in files:
            assert imported(file) - FREE - {layer} <= MAY_IMPORT[layer], file


def test_train_and_evaluate_know_no_method_by_name():
    for layer in ("train", "evaluate"):
        for file in (SOURCE / layer).rglob("*.py"):
            for name in hardpair.METHODS:
                assert name not in file.read_text().lower(), f"{file} names {name}"


def test_public_names():
    assert {"METHODS", "build_encoder", "load_encoder", "pretrain", "Run", "HNPMLoss"} <= set(hardpair.__all__)
    assert sorted(hardpair.__all__) == sorted(name for names in hardpair._HOME.values() for name in names)
    assert all(getattr(hardpair, name).__doc__ for name in hardpair.__all__)
    assert set(hardpair.__all__) <= set(dir(hardpair))
    with pytest.raises(AttributeError, match="no attribute 'pretrian'"):
        _ = hardpair.pretrian
    assert {"dissimilarity", "hard_negatives", "hnpm_loss", "normalise"} <= set(losses.__all__)


def test_benchmarks_and_scripts_ask_for_names_that_are_there():
    """Nobody runs them all, so that a name changed here would be missed there for long."""
    repository = SOURCE.parent.parent
    files = [file for folder in ("benchmarks", "scripts") for file in (repository / folder).rglob("*.py")]
    assert len(files) > 20
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "hardpair":
                module = importlib.import_module(node.module)
                for alias in node.names:
                    there = hasattr(module, alias.name) or importlib.util.find_spec(f"{node.module}.{alias.name}")
                    assert there, f"{file}:{node.lineno}: {alias.name}"


def test_no_file_grows_too_long():
    for file in SOURCE.rglob("*.py"):
        assert len(file.read_text().splitlines()) <= 350, file
