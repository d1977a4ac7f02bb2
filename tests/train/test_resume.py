"""Training in parts: paused where it was asked to be, and bit-exact in the end; and lengthened with more epochs."""

import dataclasses
import json
import shutil
import signal

import pytest
from interruption import interrupt_at

from hardpair import load_encoder
from hardpair.errors import UserError
from hardpair.files import read_json
from hardpair.train import Outcome, pretrain
from hardpair.train.optimisers import learning_rate
from hardpair.train.pretrain import check_run


def events(run, *kinds):
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] in kinds]


def test_paused_and_resumed_equals_uninterrupted(finished_run, small_recipe, tmp_path):
    """In an epoch, at its end, and at the end of all."""
    run = tmp_path / "run"
    for step, status in ((7, "paused"), (20, "paused"), (33, "paused"), (40, "finished")):
        assert pretrain(small_recipe, run, resume=True, until=step) == Outcome(status, step)
        assert load_encoder(run).step == step
        assert (run / "checkpoints" / f"{step:09d}" / "state.safetensors").exists()
    for file in ("encoder.safetensors", "checkpoints/000000040/state.safetensors", "pairs.json"):
        assert (run / file).read_bytes() == (finished_run / file).read_bytes(), file
    rates = [{line["step"]: line["learning_rate"] for line in events(r, "step")} for r in (run, finished_run)]
    assert rates[0].items() >= rates[1].items()  # the schedule is that of the whole run
    assert set(rates[0]) == {7, 10, 20, 30, 33, 40}  # and where it paused, a line was logged
    assert [(line["step"], line["reason"]) for line in events(run, "stop")] == [(s, "a pause") for s in (7, 20, 33)]


def test_a_pause_asked_for_again_changes_nothing_and_a_signal_is_no_pause(small_recipe, tmp_path, monkeypatch):
    run = tmp_path / "run"
    assert pretrain(small_recipe, run, until=3) == Outcome("paused", 3)
    with monkeypatch.context() as patch:
        interrupt_at(patch, 4, signal.SIGTERM)
        assert pretrain(small_recipe, run, resume=True, until=5) == Outcome("stopped", 5, signal.SIGTERM)
    content = (run / "encoder.safetensors").read_bytes()
    for step in (5, 3):  # it never goes back
        assert pretrain(small_recipe, run, resume=True, until=step) == Outcome("paused", 5)
        assert (run / "encoder.safetensors").read_bytes() == content


def lengthened(recipe, epochs=3):
    return dataclasses.replace(recipe, epochs=epochs)


def content(run, *files):
    return [(run / file).read_bytes() for file in ("encoder.safetensors", "pairs.json", *files)]


@pytest.mark.parametrize("done", [40, 25])
def test_a_run_is_lengthened(small_recipe, finished_run, tmp_path, capsys, done):
    """Finished or not: on from the last checkpoint, with the schedule of the longer run; said and recorded."""
    run, longer = tmp_path / "run", lengthened(small_recipe)
    if done == 40:
        shutil.copytree(finished_run, run)
    else:
        pretrain(small_recipe, run, until=done)
    before = read_json(run / "recipe.json")
    assert pretrain(longer, run, resume=True) == Outcome("finished", 60)
    assert load_encoder(run).step == 60
    assert "from 2 to 3 epochs" in capsys.readouterr().out
    after, fresh = read_json(run / "recipe.json"), longer.to_json()
    assert after["lengthened"] == [{"from_epochs": 2, "to_epochs": 3, "at_step": done}]
    assert len({before["hash"], fresh["hash"], after["hash"]}) == 3  # it is no run that had its length from the start
    rates = {line["step"]: line["learning_rate"] for line in events(run, "step")}
    for step, rate in rates.items():
        assert rate == learning_rate(small_recipe if step <= done else longer, step - 1, 20)
    assert [(line["event"], line["step"]) for line in events(run, "stop", "end")] == [("stop", done), ("end", 60)]
    assert pretrain(longer, run, resume=True) == Outcome("finished", 60)  # already
    assert read_json(run / "recipe.json") == after


def test_a_lengthened_run_resumes_bit_exactly(small_recipe, finished_run, tmp_path, monkeypatch):
    straight, killed, longer = tmp_path / "straight", tmp_path / "killed", lengthened(small_recipe)
    for run in (straight, killed):
        shutil.copytree(finished_run, run)
    pretrain(longer, straight, resume=True)
    with monkeypatch.context() as patch:
        interrupt_at(patch, 46)
        assert pretrain(longer, killed, resume=True).step == 47
    shutil.rmtree(killed / "checkpoints/000000047")  # as after a SIGKILL: back to where it was lengthened
    for step in (52, None):
        pretrain(longer, killed, resume=True, until=step)
    files = ("recipe.json", "checkpoints/000000060/state.safetensors")
    assert content(killed, *files) == content(straight, *files)


def test_lengthened_twice(small_recipe, finished_run, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(finished_run, run)
    pretrain(lengthened(small_recipe), run, resume=True, until=50)
    pretrain(lengthened(small_recipe, 4), run, resume=True, until=51)
    changes = read_json(run / "recipe.json")["lengthened"]
    assert [(c["from_epochs"], c["to_epochs"], c["at_step"]) for c in changes] == [(2, 3, 40), (3, 4, 50)]


def test_lengthening_before_the_first_checkpoint_is_a_run_of_that_length(small_recipe, tmp_path):
    killed, fresh, longer = tmp_path / "killed", tmp_path / "fresh", lengthened(small_recipe)
    pretrain(small_recipe, killed, until=3)
    shutil.rmtree(killed / "checkpoints")
    pretrain(longer, killed, resume=True)
    pretrain(longer, fresh)
    assert content(killed, "recipe.json") == content(fresh, "recipe.json")


@pytest.mark.parametrize(
    ("change", "named"), [({"epochs": 1}, "epochs"), ({"epochs": 3, "learning_rate": 0.5}, "learning_rate")]
)
def test_anything_but_more_epochs_is_refused(small_recipe, finished_run, change, named):
    before = {path: path.stat().st_mtime_ns for path in finished_run.rglob("*")}
    with pytest.raises(UserError, match=f"settings: {named} was"):
        pretrain(dataclasses.replace(small_recipe, **change), finished_run, resume=True)
    with pytest.raises(UserError, match="epochs"):  # nor may a comparison be lengthened by the way
        check_run(lengthened(small_recipe), finished_run, resume=True)
    assert before == {path: path.stat().st_mtime_ns for path in finished_run.rglob("*")}


def test_a_comparison_refuses_a_lengthened_run(small_recipe, finished_run, tmp_path):
    run, longer = tmp_path / "run", lengthened(small_recipe)
    shutil.copytree(finished_run, run)
    pretrain(longer, run, resume=True, until=41)
    with pytest.raises(UserError, match="lengthened"):
        check_run(longer, run, resume=True, option="--out")
    (run / "recipe.json").write_text(json.dumps({**longer.to_json(), "lengthened": "often"}))
    with pytest.raises(UserError, match=r"recipe\.json"):
        pretrain(longer, run, resume=True)
