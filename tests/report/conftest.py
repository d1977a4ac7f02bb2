"""The run folders that the tests of the report look at."""

from pathlib import Path

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
