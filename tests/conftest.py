"""Shared by all tests: small real runs, and a cache that is thrown away."""

import dataclasses
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from hardpair.recipes import Recipe

# One thread a process, before torch is imported: the tests run side by side, and threads that wait for each other
# would slow all of them down. torch itself is imported by those who need it: the process that only hands out tests
# to the others does not.
os.environ["OMP_NUM_THREADS"] = "1"

# The same examples in every run, and no limit of time: a red test is red for everybody. `make soak` draws new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("soak", deadline=None)
settings.load_profile("repeatable")


def pytest_configure(config: pytest.Config) -> None:
    """Random examples where time does not matter."""
    if config.option.markexpr == "soak":
        settings.load_profile("soak")


Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def _caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Names of folders; a numbered temporary folder for each test would take longer than many a test."""
    folder = tmp_path_factory.mktemp("caches")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def _own_cache(_caches: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARDPAIR_CACHE", str(next(_caches)))
    if (evaluate := sys.modules.get("hardpair.evaluate.evaluate")) is not None:
        evaluate.CONTROLS.clear()


@pytest.fixture
def hardpair(tmp_path: Path) -> Command:
    """Run the command line as a user would: a real process in an empty folder."""

    def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "hardpair", *arguments]
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False, **options)

    return run


@pytest.fixture(scope="session")
def small_recipe() -> "Recipe":
    """Two epochs of 20 steps on a part of the bundled photos with a tiny encoder: a second, but the real thing."""
    from hardpair.doctor.training_checks import TINY

    return dataclasses.replace(TINY, name="small", data="sample:1000", epochs=2, batch_size=50)


@pytest.fixture(scope="session")
def finished_run(small_recipe: "Recipe", tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that no test changes."""
    from hardpair.train import pretrain

    run = tmp_path_factory.mktemp("runs") / "small"
    pretrain(small_recipe, run, checkpoint_every=10)
    return run


BROWSER_ARGUMENTS = [
    "--no-sandbox", "--headless", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A real browser. CI installs one; on a machine without, the pages' other tests still say something."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        pytest.skip(f"no browser found: looked for {', '.join(BROWSERS)}")
    with playwright.sync_playwright() as player:
        opened = player.chromium.launch(executable_path=executable, args=BROWSER_ARGUMENTS)
        yield opened
        opened.close()


def read_lines(path: Path) -> list[dict[str, object]]:
    """The objects of a JSON lines file."""
    return [json.loads(line) for line in path.read_text().splitlines()]
