"""Reading a run that may have ended badly."""

import json
from pathlib import Path

import pytest
from fake_run import write_lines

from hardpair.errors import UserError
from hardpair.report import summary_table, write_report
from hardpair.report.run_files import read_run


@pytest.mark.parametrize("name", ["log.jsonl", "scores.jsonl", "pairs.json", "neighbours.json"])
def test_a_truncated_file_is_mentioned_and_the_page_still_made(run: Path, name: str) -> None:
    path = run / name
    path.write_bytes(path.read_bytes()[:-25])
    html = write_report(run).read_text(encoding="utf-8")
    assert name in html
    assert "left out." in html


def test_all_but_the_broken_line_is_kept(run: Path) -> None:
    whole = read_run(run).log
    path = run / "log.jsonl"
    path.write_bytes(path.read_bytes()[:-5] + b"\xc3")  # half a line and half a character
    cut = read_run(run)
    assert cut.log == whole[:-1]
    assert cut.notes == ["log.jsonl: 1 line could not be read and was left out."]


def test_a_damaged_recipe_is_a_user_error(run: Path) -> None:
    (run / "recipe.json").write_text('{"name": ', encoding="utf-8")
    with pytest.raises(UserError, match=r"recipe\.json is damaged"):
        read_run(run)


@pytest.mark.parametrize("content", ["[]", "3", '{"pairs": 3, "queries": [1, {}]}', '{"pairs": [{"anchor": 3}]}'])
def test_a_file_of_another_shape_does_not_stop_the_page(run: Path, content: str) -> None:
    for name in ("pairs.json", "neighbours.json", "log.jsonl", "scores.jsonl"):
        (run / name).write_text(content, encoding="utf-8")
    assert write_report(run).is_file()


def test_a_resumed_run_counts_each_step_once(run: Path) -> None:
    lines = [{"event": "step", "step": step, "loss": loss} for step, loss in [(1, 9), (2, 8), (3, 7)]]
    again = [{"event": "resume", "step": 1}, {"event": "step", "step": 2, "loss": 5}]
    write_lines(run / "log.jsonl", [*lines, *again])
    assert [(line["step"], line["loss"]) for line in read_run(run).steps] == [(1, 9), (2, 5)]


@pytest.mark.parametrize(
    ("last", "says"),
    [
        (
            {"event": "stop", "step": 31, "reason": "the loss was not finite"},
            "Training stopped early at step 31: the loss was",
        ),
        ({"event": "resume", "step": 31}, "The log has no end"),
    ],
)
def test_a_run_that_did_not_finish_says_so(run: Path, last: dict[str, object], says: str) -> None:
    with (run / "log.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(last) + "\n")
    assert says in write_report(run).read_text(encoding="utf-8")
    assert says in summary_table(run)


def test_a_run_that_was_cut_off_counts_only_the_epochs_it_did(run: Path) -> None:
    path = run / "log.jsonl"
    path.write_text("".join(path.read_text(encoding="utf-8").splitlines(keepends=True)[:8]), encoding="utf-8")
    assert "without labels for 3.5 of 20 epochs" in summary_table(run)
    path.unlink()
    assert "was set to learn from the images of sample" in summary_table(run)


def test_the_table_lines_up_scores_and_controls(finished: Path) -> None:
    lines = summary_table(finished).splitlines()
    assert lines[0].startswith("demo: A resnet18 of width 0.25 learned from 5,000 images")
    assert lines[2].split() == ["protocol", "tested", "on", "metric", "encoder", "random", "gain"]
    assert lines[3].split() == ["linear", "sample/test", "top-1", "45.1", "33.0", "+12.1"]
    assert len({len(line) for line in lines[2:7]}) == 1


def test_the_table_without_scores_names_the_command(run: Path) -> None:
    (run / "scores.jsonl").unlink()
    assert "No scores yet: hardpair evaluate" in summary_table(run)
    with pytest.raises(UserError, match="not a run"):
        summary_table(run.parent)


def test_a_supervised_run_does_not_claim_to_have_had_no_labels(run):
    recipe = json.loads((run / "recipe.json").read_text())
    (run / "recipe.json").write_text(json.dumps({**recipe, "method": "supervised"}))
    assert "with labels" in summary_table(run)
    assert "by supervised training" in summary_table(run)
