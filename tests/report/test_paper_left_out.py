"""What the measured tables leave out, and files that say strange things."""

import json
from pathlib import Path

import pytest
from paper_runs import RECIPE, measured, score, tables, top, write_run

from hardpair.errors import UserError
from hardpair.report.paper import write_paper

STRANGE = "<b>x</b>\x1b[31m&\n"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return tmp_path / "paper.html"


def test_only_test_scores_count(tmp_path: Path, page: Path) -> None:
    unsaid = {key: value for key, value in score("linear", top(63.0)).items() if key != "on"}
    scores = [score("linear", top(61.0)), score("linear", top(62.0), {"a": 1}, on="validation"), unsaid | {"step": 0}]
    text = write_paper([write_run(tmp_path / "a", "byol", scores[1], scores[2])], page)
    assert "a: no test score that these tables have a place for; hardpair evaluate" in text
    assert all(kind == "published" for shown in tables(page).values() for kind, *_ in shown)
    write_paper([write_run(tmp_path / "b", "byol", *scores[:2])], page)
    assert measured(page, 1)["BYOL"][0] == "61.0 (1)"


def test_what_does_not_count_is_said_in_a_line(tmp_path: Path, page: Path) -> None:
    linear = score("linear", top(50.0))
    once, bare = write_run(tmp_path / "once", "byol", linear), write_run(tmp_path / "bare", "byol")
    cut, stale = (
        write_run(tmp_path / name, "byol", {**linear, "recipe_hash": RECIPE["hash"]}) for name in ("cut", "stale")
    )
    (cut / "log.jsonl").write_text('{"event": "start"}\n', encoding="utf-8")
    (stale / "log.jsonl").write_text('{"event": "end", "step": 620}\n', encoding="utf-8")
    with (once / "scores.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"protocol": "lin')
    lines = write_paper([once, bare, cut, stale, once / ".." / "once"], page).splitlines()
    assert f"{once}/../once was given twice and counts once." in lines
    assert f"{once}: scores.jsonl: 1 line could not be read and was left out." in lines
    assert any(line.startswith(f"{bare}: no test score that these tables have a place for") for line in lines)
    assert f"{cut}: training did not come to its end, so its scores are left out." in lines
    assert any(line.startswith(f"{stale}: a score of another recipe or an earlier step left out") for line in lines)
    assert measured(page, 1)["BYOL"][0] == "50.0 (1)"
    with pytest.raises(UserError, match="is not a run"):
        write_paper([once, tmp_path], page)


def test_a_score_of_another_recipe_does_not_count(tmp_path: Path, page: Path) -> None:
    old, new = score("linear", top(40.0), {"a": 1}), score("linear", top(50.0), {"a": 2})
    run = write_run(tmp_path / "run", "byol", {**old, "recipe_hash": "other"}, {**new, "recipe_hash": RECIPE["hash"]})
    assert "a score of another recipe" in write_paper([run], page)
    assert measured(page, 1)["BYOL"][0] == "50.0 (1)"


def test_what_files_say_is_escaped(tmp_path: Path, page: Path) -> None:
    strange = score("linear", top(50.0), {STRANGE: STRANGE})
    strange["data"] = {"test": {"name": STRANGE, "images": 3, "digest": STRANGE}}
    runs = [
        write_run(
            tmp_path / f"<i>{seed}", STRANGE, strange, name=STRANGE, data=STRANGE, encoder=STRANGE, batch_size=seed
        )
        for seed in (1, 2)
    ]
    text = write_paper([*runs, runs[0]], page)
    html = page.read_text(encoding="utf-8")
    assert "\x1b" not in text + html
    assert "<b>" not in html
    assert "<i>" not in html
    assert measured(page, 1)["<b>x</b>?[31m&?, batch size 1"][0] == "50.0 (1)"
    assert "on <b>x</b>?[31m&? (3 images)" in text


@pytest.mark.parametrize("value", [None, "high", [1], {"top1": 3}, True])
def test_scores_of_another_shape_do_not_stop_the_page(tmp_path: Path, page: Path, value: object) -> None:
    fields = ("settings", "metrics", "control", "data", "image_size", "seed", "step")
    broken = [{**score("linear", top(50.0)), name: value} for name in fields]
    run = write_run(tmp_path / "run", "hnpm", *broken, {"on": "test", "protocol": value})
    (run / "recipe.json").write_text(
        json.dumps({**RECIPE, "method": "hnpm", "settings": {"tau": value}}), encoding="utf-8"
    )
    write_paper([run], page)
    assert "50.0 (1)" in page.read_text(encoding="utf-8")
