"""A sweep that was stopped, repeated or changed goes on with what is missing, and with nothing else."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
import torch
from interruption import interrupt_at
from small_sweeps import END, METHODS, STEPS, ablate_words, compare_words, read_lines, stamps, top1

from hardpair.cli.ablate import main as ablate
from hardpair.cli.arguments import parse
from hardpair.cli.compare import main as compare
from hardpair.data import open_images
from hardpair.errors import UserError
from hardpair.sweep.compare import comparison_variants
from hardpair.sweep.options import Compare
from hardpair.sweep.run_scores import RunScores
from hardpair.sweep.variants import plan_jobs

pytestmark = pytest.mark.usefixtures("_no_figure")


def evaluated(run):
    return [(line["protocol"], line["step"]) for line in read_lines(run / "scores.jsonl")]


def same_end(ours, theirs):
    """The encoder bit for bit, and every score during training."""
    for file in ("encoder.safetensors", f"checkpoints/{END:09d}/state.safetensors"):
        assert (ours / file).read_bytes() == (theirs / file).read_bytes(), file
    scores = [
        [(line["protocol"], line["step"], line["metrics"]) for line in read_lines(run / "scores.jsonl")]
        for run in (ours, theirs)
    ]
    assert scores[0] == scores[1]


def interrupt_evaluation(patch):
    """SIGTERM arrives whenever an encoder is evaluated."""
    evaluate = RunScores.evaluate

    def interrupted(self: RunScores, *arguments: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        evaluate(self, *arguments)

    patch.setattr(RunScores, "evaluate", interrupted)


def test_the_same_comparison_again_runs_nothing(compared, photos, tmp_path, capsys):
    out = shutil.copytree(compared, tmp_path / "out")
    before = stamps(out)
    assert compare(compare_words(photos, out)) == 0
    assert stamps(out) == before
    said = capsys.readouterr().out
    assert said.count("done before") == 4
    assert max(map(len, said.splitlines()[5:-1])) <= 120, said


def test_the_same_ablation_again_runs_nothing(ablated, photos, tmp_path, capsys):
    out = shutil.copytree(ablated, tmp_path / "out")
    before = stamps(out)
    assert ablate(ablate_words("mining", photos, out)) == 0
    assert stamps(out) == before
    assert capsys.readouterr().out.count("done before") == 4


def test_stopped_in_training_goes_on_without_repeating(compared, photos, tmp_path, monkeypatch, capsys):
    """A real Ctrl-C in the second run: the others are kept as they are, and the end is that of an uninterrupted one."""
    out = shutil.copytree(compared, tmp_path / "out")
    shutil.rmtree(out / "simclr-b1-s0")
    before = stamps(out)

    with monkeypatch.context() as patch:
        interrupt_at(patch, 1)
        assert compare(compare_words(photos, out)) == 128 + signal.SIGINT
    assert capsys.readouterr().out.endswith("stopped; the same command goes on from there\n")
    assert compare(compare_words(photos, out)) == 0
    assert "resuming" in capsys.readouterr().out
    assert {path: stamp for path, stamp in stamps(out).items() if path in before} == before
    ours, theirs = (folder / "simclr-b1-s0" for folder in (out, compared))
    assert (ours / "encoder.safetensors").read_bytes() == (theirs / "encoder.safetensors").read_bytes()
    for part in ("metrics", "control"):
        assert top1(ours, "linear", part=part) == top1(theirs, "linear", part=part)


def test_stopped_between_two_evaluations_goes_on_without_repeating(ablated, photos, tmp_path, monkeypatch, capsys):
    """The end, and every score on the way to it, is that of an uninterrupted run."""
    out = shutil.copytree(ablated, tmp_path / "out")
    run = out / "no-mining-s0"
    shutil.rmtree(run)
    before = stamps(out)

    with monkeypatch.context() as patch:
        interrupt_at(patch, STEPS + 2)
        assert ablate(ablate_words("mining", photos, out)) == 128 + signal.SIGINT
    assert capsys.readouterr().out.endswith("stopped; the same command goes on from there\n")
    assert evaluated(run) == [("knn", STEPS), ("linear", STEPS)]
    assert ablate(ablate_words("mining", photos, out)) == 0
    assert f"resuming {run} at step {STEPS + 3} of {END}" in capsys.readouterr().out
    assert {path: stamp for path, stamp in stamps(out).items() if path in before} == before
    same_end(run, ablated / "no-mining-s0")


@pytest.mark.slow
def test_stopped_while_evaluating_keeps_the_run(photos, tmp_path, monkeypatch):
    out = tmp_path / "out"
    interrupt_evaluation(monkeypatch)
    assert compare(compare_words(photos, out)) == 128 + signal.SIGTERM
    assert json.loads((out / "compare.json").read_text())["runs_done"] == 1
    text = (out / "table.md").read_text()
    assert "1 of 4 runs so far" in text
    (row,) = [line for line in text.splitlines() if line.startswith("| hnpm")]
    assert row.startswith("| hnpm (1 of 2 seeds) |")
    assert "±" not in row


@pytest.mark.slow
def test_stopped_while_evaluating_on_the_way_keeps_the_scores(ablated, photos, tmp_path, monkeypatch):
    """A signal at the first of two points of the first run; the next command begins with the part that is missing."""
    out = tmp_path / "out"
    one_seed = ablate_words("mining", photos, out, "--seeds", "1")
    interrupt_evaluation(monkeypatch)
    assert ablate(one_seed) == 128 + signal.SIGTERM
    assert evaluated(out / "base-s0") == [("knn", STEPS), ("linear", STEPS)]
    assert not (out / "mining.md").exists()
    assert ablate(one_seed) == 128 + signal.SIGTERM
    same_end(out / "base-s0", ablated / "base-s0")
    text = (out / "mining.md").read_text()
    assert "1 of 2 runs so far" in text
    assert "The paper's order" not in text
    (row,) = [line for line in text.splitlines() if line.startswith("| with mining")]
    assert row.startswith("| with mining (base) | 1 |")
    assert "±" not in row
    assert json.loads((out / "mining.json").read_text())["runs_done"] == 1


@pytest.mark.slow
def test_killed_before_it_was_evaluated_is_evaluated_first(ablated_all, photos, tmp_path, monkeypatch):
    """Power cut after the pause, with one of two protocols done: only the other is made up for."""
    out = tmp_path / "out"
    shutil.copytree(ablated_all / "student-gradient-s0", out / "student-gradient-s0")

    def cut(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("hardpair.sweep.run_scores.evaluate_run", cut)
        with pytest.raises(KeyboardInterrupt):
            ablate(ablate_words("gradient", photos, out))
    first = (ablated_all / "base-s0" / "scores.jsonl").read_text().splitlines(keepends=True)[0]
    (out / "base-s0" / "scores.jsonl").write_text(first)
    assert ablate(ablate_words("gradient", photos, out)) == 0
    same_end(out / "base-s0", ablated_all / "base-s0")


def test_validation_evaluates_again_but_does_not_train_again(compared, photos, tmp_path):
    out = shutil.copytree(compared, tmp_path / "out")
    encoder = (out / "hnpm-b1-s0" / "encoder.safetensors").stat().st_mtime_ns
    more = ["--on", "validation", "--methods", "hnpm", "--seeds", "1"]
    assert compare(compare_words(photos, out, *more)) == 0
    assert (out / "hnpm-b1-s0" / "encoder.safetensors").stat().st_mtime_ns == encoder
    score = read_lines(out / "hnpm-b1-s0" / "scores.jsonl")[-1]
    assert (score["protocol"], score["on"]) == ("linear", "validation")
    (row,) = json.loads((out / "compare.json").read_text())["rows"]
    assert row["linear"] == {"mean": score["metrics"]["top1"], "std": None}


def test_what_was_not_evaluated_in_time_is_told_and_not_trained_again(ablated, photos, tmp_path, capsys):
    """Validation is asked for afterwards: the end can still be evaluated, earlier epochs cannot."""
    out = shutil.copytree(ablated, tmp_path / "out")
    encoder = (out / "base-s0" / "encoder.safetensors").stat().st_mtime_ns
    assert ablate(ablate_words("mining", photos, out, "--on", "validation", "--seeds", "1")) == 0
    assert (out / "base-s0" / "encoder.safetensors").stat().st_mtime_ns == encoder
    score = read_lines(out / "base-s0" / "scores.jsonl")[-1]
    assert (score["protocol"], score["on"], score["step"]) == ("linear", "validation", END)
    row = json.loads((out / "mining.json").read_text())["rows"][0]
    assert row["linear"] == {"mean": score["metrics"]["top1"], "std": None}
    assert [point["epoch"] for point in row["curves"]["linear"]] == [2]
    note = "with mining: some run had been trained further before it was to be evaluated after epoch 1."
    assert note in (out / "mining.md").read_text()
    assert note in capsys.readouterr().out


@pytest.mark.slow
def test_few_labels_are_added_to_what_is_there(compared, photos, tmp_path, capsys):
    """Each share of the labels is fine-tuned with once; what was evaluated before is not evaluated again."""
    out = shutil.copytree(compared, tmp_path / "out")
    file, more = out / "hnpm-b1-s0" / "scores.jsonl", ["--methods", "hnpm", "--seeds", "1"]
    assert compare(compare_words(photos, out, *more, "--labels", ".2")) == 0
    assert compare(compare_words(photos, out, *more, "--labels", ".1", ".2")) == 0
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
    assert runs_done(photos, out, facts, "--labels", ".2") == 0  # fine-tuned in another way


def test_scores_of_another_kind_are_not_taken(compared, photos, tmp_path):
    """Of a half-trained encoder, by other settings, on other images: the run is evaluated again."""
    out = shutil.copytree(compared, tmp_path / "out")
    file = out / "hnpm-b1-s0" / "scores.jsonl"
    lines = read_lines(file)
    changes = [{"step": 1}, {"on": "validation"}, {"recipe_hash": "0"}, {"settings": {"k": 3}}, {"data": {}}]
    facts = open_images(str(photos), "train", size=8, root=tmp_path).facts()
    for change in changes:
        file.write_text("".join(json.dumps({**line, **change}) + "\n" for line in lines))
        assert runs_done(photos, out, facts) == 3, change
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert runs_done(photos, out, facts) == 4
    assert runs_done(photos, out, {**facts, "digest": "other"}) == 0


def test_scores_at_the_size_of_views_are_taken(photos, tmp_path):
    """They are of the centre of the images, so their hash is another than that of the images of training."""
    large = ["--no-small-images", "--image-size", "16", "--view-size", ".75", "--seeds", "1"]
    words = compare_words(photos, tmp_path, *large)
    assert compare(words) == 0
    assert read_lines(tmp_path / "hnpm-b1-s0/scores.jsonl")[0]["data"]["train"]["shown"] == 12
    before = stamps(tmp_path)
    assert compare(words) == 0
    assert stamps(tmp_path) == before


def runs_done(photos: Path, out: Path, facts: dict[str, object], *more: str) -> int:
    options = parse(Compare, compare_words(photos, out, *more), "hardpair compare")
    variants = comparison_variants(options, dict.fromkeys(METHODS, 1.0))
    scores = RunScores(facts, options.on, options.data_root, torch.device("cpu"), options.labels)
    jobs = plan_jobs(variants, seeds=options.seeds, out=out, images=300)
    return sum(scores.read(job) is not None for job in jobs)


def test_other_settings_in_the_same_place_are_refused(compared, photos, tmp_path):
    out = shutil.copytree(compared, tmp_path / "out")
    before = stamps(out)
    with pytest.raises(UserError, match="batch_size was 25 and is now 24"):
        compare(compare_words(photos, out, "--batch-size", "24"))
    assert stamps(out) == before


def test_another_recipe_in_the_same_place_is_refused_before_anything_runs(ablated, photos, tmp_path):
    out = shutil.copytree(ablated, tmp_path / "out")
    shutil.rmtree(out / "base-s0")  # which would be the first to run
    before = stamps(out)
    with pytest.raises(UserError, match=r"no-mining-s0: .* epochs was 2 and is now 3; .* --out"):
        ablate(ablate_words("mining", photos, out, "--epochs", "3"))
    assert stamps(out) == before
    assert not (out / "base-s0").exists()
