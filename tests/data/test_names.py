"""Columns of text are equal to lists, in a fraction of the memory."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardpair.data.names import Names, Repeated

TEXT = st.text(st.characters(codec=None), max_size=8)  # surrogates too, as in names that are not text


@pytest.mark.parametrize("column", [Names, Repeated])
@given(names=st.lists(TEXT), start=st.integers(-9, 9), stop=st.integers(-9, 9), step=st.sampled_from([-2, -1, 1, 3]))
def test_a_column_is_equal_to_a_list(column, names, start, stop, step):
    made = column(names)
    assert made == names
    assert list(made) == names
    assert [made[row] for row in range(-len(names), len(names))] == names + names
    assert made[start:stop:step] == names[start:stop:step]
    assert made != [*names, ""]
    assert "a" in made or "a" not in names
    for row in (len(names), -len(names) - 1):
        with pytest.raises(IndexError):
            made[row]


def test_a_million_names_take_little_memory():
    made = Names(f"folder/{row:07d}.jpg" for row in range(100_000))
    held = sys.getsizeof(made._block) + sys.getsizeof(made._ends)
    assert held < 35 * len(made), "a list of Python's own strings takes 75 bytes each"
