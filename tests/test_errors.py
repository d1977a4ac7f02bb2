"""Messages are one line that a terminal can show, whatever a stranger's file puts into them."""

import pytest

from hardpair.cli import VERBS
from hardpair.errors import UserError, after_a_stop, nearest, require_range, shown


def test_a_message_is_one_printable_line():
    assert str(UserError("a\nb\x1b[31mc\udcffd\u202e")) == "a?b?[31mc?d?"


def test_values_are_shown_in_short():
    deep = []
    for _ in range(5000):
        deep = [deep]
    for value in (deep, "x" * 10**6, 10**4000, {"x" * 1000: ["y" * 1000] * 1000}):
        assert len(shown(value)) < 200
    assert shown("\x1b[31m") == r"'\x1b[31m'"
    assert shown(0.5) == "0.5"


def test_a_very_long_word_is_near_to_nothing():
    assert nearest("x" * 10**6, ["one", "two"]) == "; there are one, two"


@pytest.mark.parametrize("value", [10**400, -(10**400), 1e400, float("nan")])
def test_a_number_of_any_length_is_out_of_range(value):
    with pytest.raises(UserError, match=r"^width: must be between 0 and 1, not ") as caught:
        require_range("width", value, 0, 1)
    assert len(str(caught.value)) < 100


def test_a_stop_speaks_of_a_checkpoint_only_where_there_is_one():
    spoken = {verb for verb in ("", *VERBS) if "checkpoint" in after_a_stop(verb)}
    assert spoken == {"pretrain", "compare", "ablate"}
    assert after_a_stop("evaluate") == "stopped at once; the same command goes on from there"
