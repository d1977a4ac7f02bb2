"""A finished run for a test to evaluate."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def run(finished_run: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished_run, tmp_path / "run")
