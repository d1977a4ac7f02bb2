"""What one process makes of its environment; what several tell each other is in tests/train."""

import pytest

from hardpair import distributed


@pytest.mark.parametrize(
    ("environment", "first"),
    [
        ({}, True),
        ({"RANK": "3"}, True),  # a sweep: RANK=$i hardpair pretrain --seed $i
        ({"RANK": "3", "WORLD_SIZE": "1"}, True),
        ({"RANK": "3", "WORLD_SIZE": "4"}, False),
        ({"RANK": "0", "WORLD_SIZE": "4"}, True),
    ],
)
def test_who_speaks_before_the_processes_have_met(monkeypatch, environment, first):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert distributed.is_main() is first
