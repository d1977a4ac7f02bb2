"""A comparison that was stopped, repeated or changed goes on with what is missing, and with nothing else."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from interruption import interrupt_at
from small_comparison import METHODS, read_lines, scores, stamps, words

from hardpair import cli
from hardpair.compare.options import Compare
from hardpair.compare.run import Comparison
from hardpair.data import open_images
from hardpair.errors import UserError


@pytest.mark.usefixtures("_no_figure")
def test_the_same_command_again_runs_nothing(finished, photos, tmp_path, capsys):
    out = shutil.copytree(finished, tmp_path / "out")
    before = stamps(out)
    assert cli.compare(words(photos, out)) == 0
    assert stamps(out) == before
    said = capsys.readouterr().out
    assert said.count("done before") == 4
    assert max(map(len, said.splitlines()[5:-1])) <= 120, said


@pytest.mark.usefixtures("_no_figure")
def test_stopped_in_training_goes_on_without_repeating(finished, photos, tmp_path, monkeypatch, capsys):
    """A real Ctrl-C in the second run: the others are kept as they are, and the end is that of an uninterrupted one."""
    out = shutil.copytree(finished, tmp_path / "out")
    shutil.rmtree(out / "simclr-b1-s0")
    before = stamps(out)

    with monkeypatch.context() as patch:
        interrupt_at(patch, 1)
        assert cli.compare(words(photos, out)) == 128 + signal.SIGINT
    assert capsys.readouterr().out.endswith("stopped; the same command goes on from there\n")
    assert cli.compare(words(photos, out)) == 0
    assert "resuming" in capsys.readouterr().out
    assert {path: stamp for path, stamp in stamps(out).items() if path in before} == before
    ours, theirs = (folder / "simclr-b1-s0" for folder in (out, finished))
    assert (ours / "encoder.safetensors").read_bytes() == (theirs / "encoder.safetensors").read_bytes()
    assert scores(ours, "linear") == scores(theirs, "linear")


@pytest.mark.slow
@pytest.mark.usefixtures("_no_figure")
def test_stopped_while_judging_keeps_the_run(photos, tmp_path, monkeypatch):
    judge = Comparison._judge

    def interrupted(self: Comparison, *arguments: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        judge(self, *arguments)

    monkeypatch.setattr(Comparison, "_judge", interrupted)
    assert cli.compare(words(photos, tmp_path / "out")) == 128 + signal.SIGTERM
    assert json.loads((tmp_path / "out" / "compare.json").read_text())["runs_done"] == 1
    text = (tmp_path / "out" / "table.md").read_text()
    assert "1 of 4 runs so far" in text
    (row,) = [line for line in text.splitlines() if line.startswith("| hnpm")]
    assert row.startswith("| hnpm (1 of 2 seeds) |")
    assert "±" not in row


@pytest.mark.usefixtures("_no_figure")
def test_validation_judges_again_but_does_not_train_again(finished, photos, tmp_path):
    out = shutil.copytree(finished, tmp_path / "out")
    encoder = (out / "hnpm-b1-s0" / "encoder.safetensors").stat().st_mtime_ns
    more = ["--on", "validation", "--methods", "hnpm", "--seeds", "1"]
    assert cli.compare(words(photos, out, *more)) == 0
    assert (out / "hnpm-b1-s0" / "encoder.safetensors").stat().st_mtime_ns == encoder
    score = read_lines(out / "hnpm-b1-s0" / "scores.jsonl")[-1]
    assert (score["protocol"], score["on"]) == ("linear", "validation")
    (row,) = json.loads((out / "compare.json").read_text())["rows"]
    assert row["linear"] == {"mean": score["metrics"]["top1"], "std": None}


@pytest.mark.slow
@pytest.mark.usefixtures("_no_figure")
def test_few_labels_are_added_to_what_is_there(finished, photos, tmp_path, capsys):
    """Each share of the labels is fine-tuned with once; what was judged before is not judged again."""
    out = shutil.copytree(finished, tmp_path / "out")
    file, more = out / "hnpm-b1-s0" / "scores.jsonl", ["--methods", "hnpm", "--seeds", "1"]
    assert cli.compare(words(photos, out, *more, "--labels", ".2")) == 0
    assert cli.compare(words(photos, out, *more, "--labels", ".1", ".2")) == 0
    scores = read_lines(file)
    semi = {score["settings"]["labels"]: score for score in scores if score["protocol"] == "semi"}
    assert [score["protocol"] for score in scores] == ["knn", "linear", "semi", "semi"]
    assert [semi[share]["labelled_images"] for share in (0.1, 0.2)] == [30, 60]
    (row,) = json.loads((out / "compare.json").read_text())["rows"]
    assert row["semi"]["0.1"] == {"mean": semi[0.1]["metrics"]["top1"], "std": None}
    assert row["semi_control"]["0.2"] == {"mean": semi[0.2]["control"]["top1"], "std": None}
    cells = [f"{semi[share][kind]['top1']:.1f}" for share in (0.1, 0.2) for kind in ("metrics", "control")]
    text = (out / "table.md").read_text()
    heading, _, values = [line for line in text.splitlines() if line.startswith("|")][3:]
    assert heading == "| method | forwards | 10 % of the labels | control | 20 % of the labels | control |"
    assert values.strip(" |").split(" | ")[2:] == cells
    assert "10 % of the labels" in capsys.readouterr().out
    lines = [json.dumps({**score, "settings": {**score["settings"], "epochs": [7]}}) for score in scores]
    file.write_text("".join(f"{line}\n" for line in lines))
    facts = open_images(str(photos), "train", size=8, root=tmp_path).facts()
    assert known_runs(photos, out, facts, "--labels", ".2") == 0  # fine-tuned in another way


def test_scores_of_another_kind_are_not_taken(finished, photos, tmp_path):
    """Of a half-trained encoder, by other settings, on other images: the run is judged again."""
    out = shutil.copytree(finished, tmp_path / "out")
    file = out / "hnpm-b1-s0" / "scores.jsonl"
    lines = read_lines(file)
    changes = [{"step": 1}, {"on": "validation"}, {"recipe_hash": "0"}, {"settings": {"k": 3}}, {"data": {}}]
    facts = open_images(str(photos), "train", size=8, root=tmp_path).facts()
    for change in changes:
        file.write_text("".join(json.dumps({**line, **change}) + "\n" for line in lines))
        assert known_runs(photos, out, facts) == 3, change
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert known_runs(photos, out, facts) == 4
    assert known_runs(photos, out, {**facts, "digest": "other"}) == 0


def known_runs(photos: Path, out: Path, facts: dict[str, object], *more: str) -> int:
    from hardpair.compare.plan import plan_jobs

    options = cli.parse(Compare, words(photos, out, *more), "hardpair compare")
    return len(Comparison(options, "", facts, plan_jobs(options, dict.fromkeys(METHODS, 1.0)), {}).results)


def test_other_settings_in_the_same_place_are_refused(finished, photos, tmp_path):
    out = shutil.copytree(finished, tmp_path / "out")
    before = stamps(out)
    with pytest.raises(UserError, match="cannot resume with other settings: batch_size was 25 and is now 24"):
        cli.compare(words(photos, out, "--batch-size", "24"))
    assert stamps(out) == before
