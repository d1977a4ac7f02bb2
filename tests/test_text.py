"""Counts and quantities in words."""

import pytest

from hardpair.text import duration, scaled, several, sides


def test_one_is_one_and_all_else_are_several():
    words = ["0 images", "1 image", "2 images", "1,234,567 images"]
    assert [several(count, "image") for count in (0, 1, 2, 1_234_567)] == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "0.0 B"),
        (0.25, "0.2 B"),
        (1, "1.0 B"),
        (999, "999.0 B"),
        (1000, "1.0 kB"),
        (15_530, "15.5 kB"),
        (1e6, "1.0 MB"),
        (80e9, "80.0 GB"),
        (999.9e9, "999.9 GB"),
        (1e12, "1.0 TB"),
        (2.5e27, "2500.0 YB"),  # beyond the last prefix
    ],
)
def test_the_prefix_keeps_numbers_short(value, words):
    assert scaled(value, "B") == words


def test_the_size_of_views_is_said_where_it_is_another():
    assert sides(32, 24) == "32 px, views of 24 px"
    assert sides(32, 32) == "32 px"


def test_durations_have_two_units_at_most():
    seconds = (0, 6.9, 60, 200, 1530, 6900, 187_300)
    words = ["0 s", "6 s", "1 min 0 s", "3 min 20 s", "25 min", "1 h 55 min", "2 d 4 h"]
    assert [duration(value) for value in seconds] == words
