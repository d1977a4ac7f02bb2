"""The long form of what tests/train and tests/data do in short: `make soak`."""

from pathlib import Path

import pytest
from corruptions import check_fallback

pytestmark = pytest.mark.soak


def test_200_random_damages_are_noticed(tmp_path: Path) -> None:
    check_fallback(tmp_path, trials=200, seed=1)
