"""Command line arguments → a dataclass."""

import re
from dataclasses import dataclass, field

import pytest

from hardpair.cli import VERBS, run_verb
from hardpair.cli.arguments import parse
from hardpair.errors import UserError
from hardpair.sweep.options import Compare


@dataclass(frozen=True)
class Options:
    """Some options.

    Args:
        flag: yes, no, or nothing said.
        number: how many.
    """

    flag: bool | None = None
    number: int = 0


@dataclass(frozen=True)
class Nested:
    """Options in a group, as help shows them."""

    part: Options = field(default_factory=Options)


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        ([], None),
        (["--flag"], True),
        (["--no-flag"], False),
        (["--flag", "True"], True),
        (["--flag", "False"], False),
        (["--flag=False"], False),
    ],
)
def test_nothing_said_is_a_third_choice(words, flag):
    for more in ([], ["--number", "2"]):
        assert parse(Options, [*words, *more], "some") == Options(flag, 2 if more else 0)
        assert parse(Options, [*more, *words], "some") == Options(flag, 2 if more else 0)
        assert parse(Nested, [*words, *more], "some").part == Options(flag, 2 if more else 0)


def test_a_flag_of_a_verb():
    assert parse(Compare, ["--no-small-images"], "hardpair compare").small_images is False
    with pytest.raises(UserError, match="--no-seeds: there is no such option"):
        parse(Compare, ["--no-seeds"], "hardpair compare")


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (["embed"], "ENCODER, IMAGES, --out PATH"),
        (["embed", "runs/x", "photos"], "--out PATH"),
        (["search"], "EMB"),
        (["evaluate", "--k", "3"], "RUN"),
    ],
)
def test_what_is_missing_is_named_as_help_names_it(words, missing):
    with pytest.raises(UserError) as error:
        run_verb(words)
    assert str(error.value).startswith(f"{missing}: ")
    assert f"hardpair {words[0]} --help" in str(error.value)


@pytest.mark.parametrize("verb", VERBS)
def test_help_names_what_to_give_as_the_list_of_verbs_does(verb, capsys):
    with pytest.raises(SystemExit):
        run_verb([verb, "--help"])
    usage = capsys.readouterr().out.partition("\n\n")[0]
    for name in re.findall(r"\b[A-Z]{3,}\b", VERBS[verb][0].partition("--")[0]):
        assert re.search(rf"\b{name}\b", usage), usage
