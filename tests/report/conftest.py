"""The run folders that the tests of the report look at."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_run import fill

# Drawing is what takes time, so a page that is made anew for each test has few curves.
FURTHER = ("positive", "negative", "empty", "gradient_norm", "data_wait", "rank", "images_per_second", "learning_rate")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run for a test to change as it likes."""
    return fill(tmp_path / "runs" / "demo", leave_out=FURTHER)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete run that no test changes, so that one page serves many."""
    return fill(tmp_path_factory.mktemp("runs") / "demo")


ARGUMENTS = [
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
        opened = player.chromium.launch(executable_path=executable, args=ARGUMENTS)
        yield opened
        opened.close()
