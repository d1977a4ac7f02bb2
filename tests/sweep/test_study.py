"""The study's variants and the results that are in the repository."""

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_study_reads_the_results_that_are_there():
    words = [sys.executable, "benchmarks/study/run.py", "base", "kept", "search", "--table"]
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=True)
    heading, _, *rows = done.stdout.splitlines()
    assert heading.startswith("| variant | seeds | forwards | linear | knn |")
    assert rows[0].startswith("| demo/hnpm | 1 | 32 | 45.2 | 41.3 | 7.3% | 66 |")
    assert len(rows) == 1 + 5 + 40
