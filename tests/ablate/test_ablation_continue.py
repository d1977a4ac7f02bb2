"""An ablation that was stopped, repeated or changed goes on with what is missing, and with nothing else."""

import json
import os
import shutil
import signal

import pytest
from interruption import interrupt_at
from small_ablation import STEPS, read_lines, stamps, words

from hardpair import cli
from hardpair.ablate.run import Ablation
from hardpair.errors import UserError

END = 2 * STEPS
pytestmark = pytest.mark.usefixtures("_no_figure")


def judged(run):
    return [(line["protocol"], line["step"]) for line in read_lines(run / "scores.jsonl")]


def same_end(ours, theirs):
    """The encoder bit for bit, and every score on the way."""
    for file in ("encoder.safetensors", f"checkpoints/{END:09d}/state.safetensors"):
        assert (ours / file).read_bytes() == (theirs / file).read_bytes(), file
    scores = [
        [(line["protocol"], line["step"], line["metrics"]) for line in read_lines(run / "scores.jsonl")]
        for run in (ours, theirs)
    ]
    assert scores[0] == scores[1]


def test_the_same_command_again_runs_nothing(finished, photos, tmp_path, capsys):
    out = shutil.copytree(finished, tmp_path / "out")
    before = stamps(out)
    assert cli.ablate(words("mining", photos, out)) == 0
    assert stamps(out) == before
    assert capsys.readouterr().out.count("done before") == 4


def test_stopped_in_the_middle_of_a_part_goes_on_without_repeating(finished, photos, tmp_path, monkeypatch, capsys):
    """A real Ctrl-C between two judged epochs: the end, and every score, is that of an uninterrupted run."""
    out = shutil.copytree(finished, tmp_path / "out")
    shutil.rmtree(out / "no-mining-s0")
    before = stamps(out)

    with monkeypatch.context() as patch:
        interrupt_at(patch, STEPS + 2)
        assert cli.ablate(words("mining", photos, out)) == 128 + signal.SIGINT
    assert capsys.readouterr().out.endswith("stopped; the same command goes on from there\n")
    run = out / "no-mining-s0"
    assert judged(run) == [("knn", STEPS), ("linear", STEPS)]
    assert cli.ablate(words("mining", photos, out)) == 0
    assert f"resuming {run} at step {STEPS + 3} of {END}" in capsys.readouterr().out
    assert {path: stamp for path, stamp in stamps(out).items() if path in before} == before
    same_end(run, finished / "no-mining-s0")


@pytest.mark.slow
def test_stopped_while_judging_keeps_what_was_judged(finished, photos, tmp_path, monkeypatch):
    """A signal at the first of two points of the first run; the next command begins with the part that is missing."""
    out, judge = tmp_path / "out", Ablation._judge

    def interrupted(self: Ablation, *arguments: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        judge(self, *arguments)

    one_seed = words("mining", photos, out, "--seeds", "1")
    with monkeypatch.context() as patch:
        patch.setattr(Ablation, "_judge", interrupted)
        assert cli.ablate(one_seed) == 128 + signal.SIGTERM
        assert judged(out / "base-s0") == [("knn", STEPS), ("linear", STEPS)]
        assert not (out / "mining.md").exists()
        assert cli.ablate(one_seed) == 128 + signal.SIGTERM
    same_end(out / "base-s0", finished / "base-s0")
    text = (out / "mining.md").read_text()
    assert "1 of 2 runs so far" in text
    assert "The paper's order" not in text
    (row,) = [line for line in text.splitlines() if line.startswith("| with mining")]
    assert row.startswith("| with mining (base) | 1 |")
    assert "±" not in row
    assert json.loads((out / "mining.json").read_text())["runs_done"] == 1


@pytest.mark.slow
def test_killed_before_it_was_judged_is_judged_first(finished_all, photos, tmp_path, monkeypatch):
    """Power cut after the pause, with one of two protocols done: only the other is made up for."""
    out = tmp_path / "out"
    shutil.copytree(finished_all / "student-gradient-s0", out / "student-gradient-s0")

    def cut(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("hardpair.ablate.run.evaluate_run", cut)
        with pytest.raises(KeyboardInterrupt):
            cli.ablate(words("gradient", photos, out))
    first = (finished_all / "base-s0" / "scores.jsonl").read_text().splitlines(keepends=True)[0]
    (out / "base-s0" / "scores.jsonl").write_text(first)
    assert cli.ablate(words("gradient", photos, out)) == 0
    same_end(out / "base-s0", finished_all / "base-s0")


def test_what_was_not_judged_in_time_is_told_and_not_trained_again(finished, photos, tmp_path, capsys):
    """Validation is asked for afterwards: the end can still be judged, the way to it cannot."""
    out = shutil.copytree(finished, tmp_path / "out")
    encoder = (out / "base-s0" / "encoder.safetensors").stat().st_mtime_ns
    assert cli.ablate(words("mining", photos, out, "--on", "validation", "--seeds", "1")) == 0
    assert (out / "base-s0" / "encoder.safetensors").stat().st_mtime_ns == encoder
    score = read_lines(out / "base-s0" / "scores.jsonl")[-1]
    assert (score["protocol"], score["on"], score["step"]) == ("linear", "validation", END)
    row = json.loads((out / "mining.json").read_text())["rows"][0]
    assert row["linear"] == {"mean": score["metrics"]["top1"], "std": None}
    assert [point["epoch"] for point in row["curves"]["linear"]] == [2]
    note = "with mining: some run had been trained further before it was to be judged after epoch 1."
    assert note in (out / "mining.md").read_text()
    assert note in capsys.readouterr().out


def test_another_recipe_in_the_same_place_is_refused_before_anything_runs(finished, photos, tmp_path):
    out = shutil.copytree(finished, tmp_path / "out")
    shutil.rmtree(out / "base-s0")  # which would be the first to run
    before = stamps(out)
    with pytest.raises(UserError, match=r"no-mining-s0: cannot .* epochs was 2 and is now 3; choose .* with --out"):
        cli.ablate(words("mining", photos, out, "--epochs", "3"))
    assert stamps(out) == before
    assert not (out / "base-s0").exists()
