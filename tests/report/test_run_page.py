"""What the page says, and that it says something whatever is missing."""

import errno
import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from fake_run import DATA, RECIPE, pairs, score, write_lines

from hardpair.errors import UserError
from hardpair.report import summary_table, write_report


def page(run: Path) -> str:
    return write_report(run).read_text(encoding="utf-8")


def words(html: str) -> str:
    """The text a reader sees, with plain spaces."""
    body = re.sub(r"<style.*?</style>|<[^>]+>", "", html, flags=re.DOTALL)
    return re.sub(r"\s+", " ", body)


def test_one_sentence_says_what_was_done_and_what_came_out(run: Path) -> None:
    text = words(page(run))
    assert "A resnet18 of width 0.25 learned from 5,000 images of sample/train without labels for 20 epochs" in text
    assert (
        "linear top-1 45.1 % on sample/test, 12.1 points above a randomly initialised encoder of the same shape."
        in text
    )
    assert "3 March 2026" in text
    assert "3 min 30 s" in text


def test_sections_come_in_the_order_a_reader_asks(run: Path) -> None:
    titles = re.findall(r"<h2[^>]*>([^<]+)</h2>", page(run))
    expected = [
        "Scores",
        "Training",
        "Warnings",
        "Nearest neighbours",
        "Hardest mined pairs",
        "How to read this",
        "Details",
    ]
    assert titles == expected


def test_scores_stand_beside_their_control(run: Path) -> None:
    html = page(run)
    assert 'style="width:45.10%"' in html
    assert 'style="width:33.00%"' in html
    assert "+12.1 points" in html


def test_a_later_score_replaces_the_earlier_one(run: Path) -> None:
    with (run / "scores.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(score("linear", {"epochs": 10}, 41.0, 33.0)) + "\n")
        file.write(json.dumps(score("linear", {"epochs": 100}, 47.6, 33.0)) + "\n")
    text = words(page(run))
    assert "45.1 %" not in text
    assert "linear top-1 47.6 % on sample/test, 14.6 points above" in text
    assert "With epochs 10." in text  # two linear cards, told apart by what differs


def test_the_sentence_is_about_the_newest_score_on_the_runs_own_test_images(run: Path) -> None:
    validation = {**score("linear", {}, 60.0, 33.0), "on": "validation"}
    validation["data"] = {**DATA, "test": {**DATA["test"], "name": "sample/validation"}}
    other = {part: {"name": f"photos/{part}"} for part in ("train", "test")}
    scores = [
        validation,
        {**score("linear", {}, 61.0, 33.0), "data": other},
        score("knn", {"k": 1}, 31.0, 28.0),
        score("linear", {"a": 1}, 41.0, 33.0),
        score("linear", {"a": 2}, 42.0, 33.0),
        score("knn", {"k": 2}, 32.0, 28.0),
    ]
    best = ["42.0 % on sample/test", "31.0 % on sample/test", "61.0 % on photos/test", "60.0 % on sample/validation"]
    for expected, kept in zip(best, (6, 3, 2, 1), strict=True):
        write_lines(run / "scores.jsonl", scores[:kept])
        assert f"top-1 {expected}, " in words(page(run))


def test_scores_of_one_protocol_are_told_apart(run: Path) -> None:
    few = {**score("semi", {"labels": 0.01}, 30.0, 20.0), "labelled_images": 12_811}
    transferred = score("transfer", {"set": "pets", "form": "linear"}, 70.0, 50.0)
    write_lines(run / "scores.jsonl", [few, transferred])
    text = words(page(run))
    assert "Few labels: 12,811 labels" in text
    assert "Transfer: pets, linear" in text
    table = summary_table(run)
    assert "semi 1 %" in table
    assert "transfer linear" in table


def test_a_score_below_the_control_or_without_one_is_said_so(run: Path) -> None:
    write_lines(run / "scores.jsonl", [score("linear", {}, 30.0, 33.0)])
    assert "3.0 points below a randomly initialised encoder" in words(page(run))
    write_lines(run / "scores.jsonl", [{"protocol": "knn", "metrics": {"top1": 30.0}, "control": None}])
    assert "knn top-1 30.0 %, with no randomly initialised encoder to compare with." in words(page(run))


def test_scores_of_another_recipe_are_flagged(run: Path) -> None:
    write_lines(run / "scores.jsonl", [{**score("linear", {}, 45.1, 33.0), "recipe_hash": "another"}])
    assert "Scores of another recipe or of an earlier step than this folder holds now (linear)" in page(run)


def test_scores_of_an_earlier_step_are_flagged(run: Path) -> None:
    write_lines(run / "scores.jsonl", [{**score("linear", {}, 45.1, 33.0), "step": 10}])
    assert "earlier step" in page(run)


def test_top_5_of_few_classes_is_left_out(run: Path) -> None:
    for classes, shown in ((6, False), (10, True), (None, True)):
        write_lines(run / "scores.jsonl", [{**score("linear", {}, 45.1, 33.0), "classes": classes}])
        assert ("top-5" in page(run)) == shown
        assert ("top-5" in summary_table(run)) == shown


def test_k_is_shown(run: Path) -> None:
    assert "(k = 20)" in page(run)
    assert "knn k=20 " in summary_table(run)
    write_lines(run / "scores.jsonl", [score("knn", {"k": 9000}, 39.4, 28.6)])
    assert "(k = 5,000)" in page(run)  # there are no more training images


@pytest.mark.parametrize(
    ("share", "title", "said"), [(0.01, "Few labels", "1 % of"), (1.0, "Fine-tuning", "all labels")]
)
def test_few_labels_are_called_few_only_if_they_are(run: Path, share: float, title: str, said: str) -> None:
    write_lines(run / "scores.jsonl", [score("semi", {"labels": share}, 30.0, 20.0)])
    html = page(run)
    assert f"<h3>{title}" in html
    assert f"fine-tuned with {said}" in html


def test_rank_is_shown_beside_the_largest_there_could_be(finished: Path, run: Path) -> None:
    assert "61.3 of 128<" in page(finished)
    (run / "recipe.json").write_text(json.dumps({**RECIPE, "batch_size": 40}), encoding="utf-8")
    write_lines(run / "log.jsonl", [{"event": "step", "step": 1, "rank": 26.0}])
    html = page(run)
    assert "26.0 of 39<" in html
    assert "of 128 dimensions" in html


def test_everything_from_files_is_escaped(run: Path) -> None:
    nasty = '<script>alert("x")</script>'
    (run / "recipe.json").write_text(
        json.dumps({**RECIPE, "method": nasty, nasty: nasty, "encoder": nasty}), encoding="utf-8"
    )
    mined = pairs(1)
    mined["pairs"][0]["anchor"].update(label=nasty, id=nasty)
    mined["pairs"][0]["negative"].update(label="<script>", png='"><script>')
    (run / "pairs.json").write_text(json.dumps(mined), encoding="utf-8")
    step = {"event": "step", "step": 1, "epoch": 1.0, nasty: 1.0}
    write_lines(run / "log.jsonl", [{"event": "start", "commit": nasty}, step, {"event": "warning", "text": nasty}])
    write_lines(
        run / "scores.jsonl",
        [{"protocol": nasty, "metrics": {nasty: nasty, "top1": 4.0}, "data": {"test": {"name": nasty}}}],
    )
    html = page(run)
    assert "<script" not in html
    assert "&lt;script&gt;" in html


def test_the_page_is_well_formed_and_its_ids_are_unique(finished: Path) -> None:
    html = page(finished)
    checker = Nesting()
    checker.feed(html)
    assert checker.open == []
    repeated = [name for name, times in Counter(checker.ids).items() if times > 1]
    assert not repeated
    targets = set(re.findall(r'(?:url\(#|href="#)([^")]+)', html))
    assert targets
    assert targets <= set(checker.ids)


class Nesting(HTMLParser):
    """Every element is closed by its own end tag."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in {"img", "meta", "link"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.remove(tag)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("scores.jsonl", "There are no scores yet. hardpair evaluate"),
        ("log.jsonl", "No training step is logged. hardpair pretrain"),
        ("neighbours.json", "No neighbours are on file. hardpair evaluate"),
        ("pairs.json", "No mined pairs are on file; training writes them when it ends"),
    ],
)
def test_a_missing_file_is_said_with_the_command_that_makes_it(run: Path, name: str, says: str) -> None:
    (run / name).unlink()
    assert says in words(page(run))


def test_a_bare_recipe_still_makes_a_page(tmp_path: Path) -> None:
    (tmp_path / "recipe.json").write_text("{}", encoding="utf-8")
    assert "no score has been measured yet." in words(page(tmp_path))


def test_a_folder_that_is_no_run_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is not a run: it holds no recipe\.json") as caught:
        write_report(tmp_path)
    assert "\n" not in str(caught.value)


def test_no_half_page_is_left_behind(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_report(run).write_text("old", encoding="utf-8")

    def fail(self: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(UserError, match="disk full"):
        write_report(run)
    assert (run / "report.html").read_text(encoding="utf-8") == "old"
    assert not list(run.glob(".report*"))
