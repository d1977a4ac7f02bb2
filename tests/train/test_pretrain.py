"""The pretraining loop: it learns, it logs, it stops and goes on bit for bit."""

import dataclasses
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from interruption import interrupt_at
from PIL import Image
from safetensors.torch import load_file

from hardpair import load_encoder
from hardpair.errors import UserError
from hardpair.recipes import Recipe
from hardpair.train import Outcome, pretrain
from hardpair.views import view

TIMES = {"images_per_second", "data_wait", "time", "seconds"}


def log_lines(run: Path, *events: str) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in TIMES} for line in lines if line["event"] in events]


def test_a_run_leaves_everything(finished_run, small_recipe):
    assert Recipe.from_json(json.loads((finished_run / "recipe.json").read_text())).to_json() == small_recipe.to_json()
    assert load_encoder(finished_run).num_features == 32
    steps = log_lines(finished_run, "step")
    assert [line["step"] for line in steps] == [10, 20, 30, 40]
    assert {"loss", "positive", "negative", "mined", "spread", "rank", "learning_rate", "gradient_norm"} <= steps[
        0
    ].keys()
    assert [line["event"] for line in log_lines(finished_run, "start", "end")] == ["start", "end"]
    pairs = json.loads((finished_run / "pairs.json").read_text())
    assert pairs["mined"] > 0
    assert 0 < pairs["false_negatives"] < 1
    assert pairs["chance"] == pytest.approx(0.1, abs=0.001)
    distances = [pair["distance"] for pair in pairs["pairs"]]
    assert distances == sorted(distances)


SLOW = (7, 33)
EVERY_STEP = [
    pytest.param(k, marks=() if k == 19 else pytest.mark.slow if k in SLOW else pytest.mark.soak) for k in range(1, 40)
]


@pytest.mark.parametrize("stop_at", EVERY_STEP)
def test_resumed_equals_uninterrupted(finished_run, small_recipe, tmp_path, monkeypatch, stop_at):
    """Checkpoint, encoder, log: equal bit for bit, stopped in an epoch, at its end, or at a save."""
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        interrupt_at(patch, stop_at - 1)
        assert pretrain(small_recipe, run, checkpoint_every=10) == Outcome("stopped", stop_at, signal.SIGINT)
    assert pretrain(small_recipe, run, checkpoint_every=10, resume=True).status == "finished"
    for file in ("encoder.safetensors", "checkpoints/000000040/state.safetensors", "pairs.json"):
        assert (run / file).read_bytes() == (finished_run / file).read_bytes(), file
    assert log_lines(run, "step") == log_lines(finished_run, "step")


def test_killed_run_loses_only_the_steps_since_its_checkpoint(finished_run, small_recipe, tmp_path):
    """SIGKILL leaves no chance to save; the log is wound back to the checkpoint and written again."""
    run = tmp_path / "run"
    shutil.copytree(finished_run, run)
    shutil.rmtree(run / "checkpoints" / "000000040")
    lines = [line for line in (run / "log.jsonl").read_text().splitlines(keepends=True) if '"end"' not in line]
    with (run / "log.jsonl").open("w") as log:
        log.writelines(lines)
        log.write('{"event": "step", "step": 39, "lo')
    assert pretrain(small_recipe, run, checkpoint_every=10, resume=True).status == "finished"
    assert (run / "encoder.safetensors").read_bytes() == (finished_run / "encoder.safetensors").read_bytes()
    assert log_lines(run, "step") == log_lines(finished_run, "step")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_to_the_real_command(tmp_path, number):
    words = [sys.executable, "-m", "hardpair", "pretrain", "--encoder", "resnet10", "--width", ".0625"]
    process = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    log = tmp_path / "runs" / "demo" / "log.jsonl"
    deadline = time.monotonic() + 60
    while not (log.exists() and '"step", "step": 10' in log.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number, errors
    assert "stopped at step" in out
    assert "--resume" in out
    assert "Traceback" not in errors
    step = log_lines(log.parent, "stop")[0]["step"]
    assert (log.parent / "checkpoints" / f"{step:09d}" / "state.safetensors").exists()


def test_existing_run_is_refused_and_untouched(finished_run, small_recipe):
    before = {path: path.stat().st_mtime_ns for path in finished_run.rglob("*")}
    with pytest.raises(UserError, match="already exists; continue it with --resume"):
        pretrain(small_recipe, finished_run)
    other = dataclasses.replace(small_recipe, epochs=3, settings={**small_recipe.settings, "tau": 0.9})
    with pytest.raises(UserError, match=r"tau was 0.5 and is now 0.9"):
        pretrain(other, finished_run, resume=True)
    assert before == {path: path.stat().st_mtime_ns for path in finished_run.rglob("*")}


def test_changed_images_are_refused(small_recipe, tmp_path, monkeypatch):
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(9):
        Image.new("RGB", (16, 16), (20 * number, 0, 0)).save(folder / f"{number}.png")
    recipe = dataclasses.replace(small_recipe, data=str(folder), batch_size=4)
    with monkeypatch.context() as patch:
        interrupt_at(patch, 1)
        assert pretrain(recipe, tmp_path / "run").status == "stopped"
    Image.new("RGB", (16, 16), (0, 99, 0)).save(folder / "new.png")
    with pytest.raises(UserError, match="has other images than those it began with"):
        pretrain(recipe, tmp_path / "run", resume=True)
    (folder / "new.png").unlink()
    folder.rename(tmp_path / "moved")  # where they lie does not matter
    recipe = dataclasses.replace(recipe, data=str(tmp_path / "moved"))
    assert pretrain(recipe, tmp_path / "run", resume=True).status == "finished"  # 9 images: the last batch is short


@pytest.mark.parametrize(("view_size", "size"), [(0.5, "16 px, views of 8 px"), (1.0, "16 px")])
def test_a_run_says_what_it_is(small_recipe, tmp_path, capsys, view_size, size):
    recipe = dataclasses.replace(small_recipe, image_size=16, view_size=view_size, epochs=1)
    pretrain(recipe, tmp_path / "run", until=1)
    words = f"hnpm on 1,000 images of sample:1000/train at {size}; resnet10, width 0.0625, 0.0 M parameters; "
    assert capsys.readouterr().out.startswith(f"{words}1 epoch of 20 steps, 50 images per step, on ")


def test_images_without_labels_and_images_left_over(small_recipe, tmp_path, capsys):
    folder = tmp_path / "photos"
    folder.mkdir()
    for index in range(9):
        Image.effect_noise((16, 16), 40 + index).save(folder / f"{index}.png")
    recipe = dataclasses.replace(small_recipe, data=str(folder), batch_size=4, epochs=1)
    assert not pretrain(recipe, tmp_path / "run").labelled
    said = capsys.readouterr().out
    assert "the last 1 image of each shuffled epoch are not used" in said
    assert "looking for the hardest pairs" in said
    simclr = dataclasses.replace(recipe, method="simclr", settings={})
    pretrain(simclr, tmp_path / "other")
    assert "hardest pairs" not in capsys.readouterr().out


def test_kernels_are_compiled_before_the_first_step_and_it_is_said(small_recipe, tmp_path, monkeypatch, capsys):
    real = view.augmented_view

    def slow(*arguments):
        time.sleep(0.1)  # as a compiler would take
        return real(*arguments)

    monkeypatch.setattr(view, "augmented_view", slow)
    monkeypatch.setattr(view, "COMPILE_NOTICE_SECONDS", 0.01)
    pretrain(small_recipe, tmp_path / "run", until=2)
    said = capsys.readouterr().out
    assert said.index("compiling the view kernels") < said.index("step 1/40")


def test_a_finished_run_is_left_alone(finished_run, small_recipe, capsys):
    before = {path: path.stat().st_mtime_ns for path in finished_run.rglob("*") if path.is_file()}
    assert pretrain(small_recipe, finished_run, resume=True) == Outcome("finished", 40)
    assert "finished already" in capsys.readouterr().out
    after = {path: path.stat().st_mtime_ns for path in finished_run.rglob("*") if path.is_file()}
    assert before.keys() == after.keys()
    assert all(before[path] == after[path] for path in before if path.name not in ("recipe.json", "data.json", "lock"))


def test_a_folder_that_is_no_run_is_refused(small_recipe, tmp_path):
    (tmp_path / "holiday.jpg").write_text("mine")
    with pytest.raises(UserError, match=r"no recipe\.json"):
        pretrain(small_recipe, tmp_path, resume=True)
    with pytest.raises(UserError, match="is a file"):
        pretrain(small_recipe, tmp_path / "holiday.jpg")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"batch_size": 6000}, "batch_size: 6000 is more than the 1000 images"),
        ({"settings": {"tau": 3.0}}, "tau: must be between 0 and 1"),
        ({"data": "sampel"}, "did you mean sample"),
        ({"method": "cpc", "settings": {}, "image_size": 16}, "image_size: cpc cuts 16 px into 3 x 3 patches"),
    ],
)
def test_bad_settings_leave_nothing_behind(small_recipe, tmp_path, changes, words):
    with pytest.raises(UserError, match=words):
        pretrain(dataclasses.replace(small_recipe, **changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("method", ["moco", "instdisc", "supervised"])
def test_what_a_method_remembers_survives_a_stop(small_recipe, tmp_path, monkeypatch, method):
    settings = {"moco": {"queue": 600, "head_hidden": 32}, "instdisc": {"negatives": 100}}.get(method, {})
    recipe = dataclasses.replace(small_recipe, method=method, epochs=1, batch_size=100, settings=settings)
    pretrain(recipe, tmp_path / "whole")
    with monkeypatch.context() as patch:
        interrupt_at(patch, 6)
        assert pretrain(recipe, tmp_path / "halves").status == "stopped"
    assert pretrain(recipe, tmp_path / "halves", resume=True).status == "finished"
    whole, halves = (load_file(tmp_path / name / "encoder.safetensors") for name in ("whole", "halves"))
    assert all(torch.equal(whole[name], halves[name]) for name in whole)


def test_grey_images_are_refused_where_colour_is_needed(small_recipe, tmp_path):
    folder = tmp_path / "grey"
    folder.mkdir()
    for index in range(8):
        Image.effect_noise((16, 16), 40 + index).save(folder / f"{index}.png")
    recipe = dataclasses.replace(small_recipe, method="cmc", data=str(folder), batch_size=4, width=0.125, settings={})
    with pytest.raises(UserError, match="these images are grey"):
        pretrain(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_labels_are_needed_where_they_are_learned_from(small_recipe, tmp_path):
    folder = tmp_path / "unlabelled"
    folder.mkdir()
    for index in range(8):
        Image.effect_noise((16, 16), 40 + index).save(folder / f"{index}.png")
    recipe = dataclasses.replace(small_recipe, method="supervised", data=str(folder), batch_size=4, settings={})
    with pytest.raises(UserError, match="has no labels to train with"):
        pretrain(recipe, tmp_path / "run")


def test_collapse_is_said_in_words(small_recipe, tmp_path, capsys):
    """Without negatives and with a student that copies, everything collapses."""
    settings = {"head_outputs": 0, "head_hidden": 0, "alpha_pos": 1.0, "alpha_neg": 0.0, "tau": 0.0, "norm": "l2"}
    recipe = dataclasses.replace(small_recipe, epochs=4, learning_rate=0.1, settings=settings)
    pretrain(recipe, tmp_path / "run")
    assert "features have collapsed" in log_lines(tmp_path / "run", "warning")[0]["text"]
    assert "features have collapsed" in capsys.readouterr().out


def test_empty_mining_is_said_in_words(small_recipe, tmp_path):
    """With threshold 0, and too slow to bring any pair together, nothing is mined."""
    settings = {**small_recipe.settings, "threshold": 0.0}
    pretrain(dataclasses.replace(small_recipe, learning_rate=1e-6, settings=settings), tmp_path / "run")
    assert [line["text"].split(":")[0] for line in log_lines(tmp_path / "run", "warning")] == ["nothing is mined"]


def test_a_healthy_run_is_not_warned_about(finished_run):
    assert log_lines(finished_run, "warning") == []


def test_infinite_loss_stops_with_words(small_recipe, tmp_path):
    """Whichever shows first, which rounding decides: a loss in some steps, or weights that are to be saved."""
    recipe = dataclasses.replace(small_recipe, learning_rate=1000.0, weight_decay=1.0, optimiser="sgd")
    with pytest.raises(UserError, match=r"weights are not finite at step|not finite in \d steps in a row"):
        pretrain(recipe, tmp_path / "run", checkpoint_every=1)
    for state in (tmp_path / "run").rglob("*.safetensors"):
        assert all(tensor.isfinite().all() for tensor in load_file(state).values())


def test_checkpoint_holds_optimiser_and_student(finished_run):
    names = load_file(finished_run / "checkpoints" / "000000040" / "state.safetensors").keys()
    assert any(name.startswith("method/student.") for name in names)
    assert {"optimiser/0/exp_avg", "optimiser/0/exp_avg_sq", "optimiser/0/step"} <= names
