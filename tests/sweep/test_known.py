"""What an earlier comparison found is taken from its file, if it is of the same recipe on the same images."""

import json
import shutil

import pytest
from small_sweeps import METHODS, compare_words

from hardpair.cli.compare import main as compare
from hardpair.errors import UserError


def changed(compared, target, change):
    """The file of the compared comparison, with something changed."""
    content = json.loads((compared / "compare.json").read_text())
    change(content)
    target.write_text(json.dumps(content))
    return ["--known", str(target)]


def result(content):
    return content["rows"][0]["seeds"][0]


@pytest.mark.usefixtures("_no_figure")
def test_nothing_is_trained_that_is_known(compared, photos, tmp_path, capsys):
    known = shutil.copy(compared / "compare.json", tmp_path / "earlier.json")
    out = tmp_path / "out"
    assert compare(compare_words(photos, out, "--known", str(known))) == 0
    assert {path.name for path in out.iterdir()} == {"compare.json", "table.md"}
    ours, theirs = (json.loads((folder / "compare.json").read_text()) for folder in (out, compared))
    for row in ours["rows"]:
        for seed in row["seeds"]:
            assert seed.pop("source").startswith(str(known))
    for row in theirs["rows"]:
        assert [seed.pop("source") for seed in row["seeds"]] == [None, None]
    assert ours["rows"] == theirs["rows"]
    assert "Known from earlier comparisons: 4 runs of" in (out / "table.md").read_text()
    assert capsys.readouterr().out.count("done before") == 2 * len(METHODS)


@pytest.mark.usefixtures("_no_figure")
def test_what_is_not_known_is_done(compared, photos, tmp_path):
    """Another seed; and what is known from a file that knew it from another keeps its source."""
    out, again = tmp_path / "out", tmp_path / "again"
    more = ["--methods", "simclr", "--seeds", "3"]
    assert compare(compare_words(photos, out, *more, "--known", str(compared / "compare.json"))) == 0
    assert [path.name for path in out.iterdir() if path.is_dir()] == ["simclr-b1-s2"]
    assert compare(compare_words(photos, again, *more, "--known", str(out / "compare.json"))) == 0
    (row,) = json.loads((again / "compare.json").read_text())["rows"]
    sources = [seed["source"].split("/compare.json")[0] for seed in row["seeds"]]
    assert sources == [str(compared), str(compared), str(out)]


@pytest.mark.slow
@pytest.mark.usefixtures("_no_figure")
def test_another_recipe_is_not_known(compared, photos, tmp_path):
    """As after a change of a default: the file says nothing of it."""

    def other_recipes(content):
        for row in content["rows"]:
            for seed in row["seeds"]:
                seed["recipe_hash"] = "another"

    known = changed(compared, tmp_path / "known.json", other_recipes)
    out = tmp_path / "out"
    assert compare(compare_words(photos, out, "--methods", "hnpm", "--seeds", "1", *known)) == 0
    assert (out / "hnpm-b1-s0" / "encoder.safetensors").is_file()
    assert "Known from" not in (out / "table.md").read_text()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda content: content["data"].update(digest="0"), "asked for is"),
        (lambda content: content.update(on="validation"), "'validation' images; asked for is"),
        (lambda content: content.pop("rows"), r"no compare.json that can be read \(KeyError\('rows'\)\)"),
        (lambda content: content.update(rows=3), "no compare.json that can be read"),
        (lambda content: result(content).pop("linear"), "linear"),
        (lambda content: result(content).update(linear="high"), "no compare.json that can be read"),
        (lambda content: result(content).update(seed="0"), "seed: '0'"),
        (lambda content: result(content).update(recipe_hash=[]), "recipe_hash"),
        (lambda content: result(content).update(semi=[1]), "no compare.json that can be read"),
    ],
)
def test_files_that_are_of_something_else(compared, photos, tmp_path, change, said):
    known = changed(compared, tmp_path / "known.json", change)
    with pytest.raises(UserError, match=said):
        compare(compare_words(photos, tmp_path / "out", *known))
    assert not (tmp_path / "out").exists()


def test_no_such_file(photos, tmp_path):
    with pytest.raises(UserError, match=r"nowhere.json: No such file or directory; give the compare.json"):
        compare(compare_words(photos, tmp_path / "out", "--known", str(tmp_path / "nowhere.json")))
    (tmp_path / "text.json").write_text("{")
    with pytest.raises(UserError, match=r"is no compare\.json"):
        compare(compare_words(photos, tmp_path / "out", "--known", str(tmp_path / "text.json")))
