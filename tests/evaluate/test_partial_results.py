"""An evaluation that was stopped continues with the rest, and its scores are those of one that was not."""

import json
import shutil
import sys
from dataclasses import replace

import pytest
from evaluating import QUICK, evaluate
from interruption import interrupt_fit

from hardpair import cli, distributed, load_encoder
from hardpair.evaluate import Settings
from hardpair.evaluate.context import PARTIAL_FILE as FILE
from hardpair.evaluate.context import Measurement, PartialResults, is_measurement
from hardpair.evaluate.evaluate import CONTROLS
from hardpair.models import save_encoder
from hardpair.recipes.tuning import PRESETS

FEW = replace(QUICK, labels=(0.02,), preset="two")
FITS = 6  # two candidates and the chosen one, for the encoder and for the control


@pytest.fixture(scope="module", autouse=True)
def _presets():
    with pytest.MonkeyPatch.context() as patch:
        for name, rates in (("two", (0.05, 1e-6)), ("diverging", (1e30, 0.05))):
            patch.setitem(PRESETS, name, replace(PRESETS["simclr"], rates=rates))
        yield


def semi(run, patch, *, stop_at=None, few=FEW):
    """The score but for what always changes, and how many trainings began; as in a process of its own."""
    CONTROLS.clear()
    with patch.context() as here:
        fits = interrupt_fit(here, stop_at)
        if stop_at is None:
            (score,), _ = evaluate(run, "semi", settings=Settings(tuned=few))
            return {name: value for name, value in score.items() if name not in ("seconds", "date", "data_root")}, len(
                fits
            )
        with pytest.raises(KeyboardInterrupt):
            evaluate(run, "semi", settings=Settings(tuned=few))
        return None, len(fits)


@pytest.fixture(scope="module")
def undisturbed(_presets, finished_run, tmp_path_factory):
    run = shutil.copytree(finished_run, tmp_path_factory.mktemp("undisturbed") / "run")
    with pytest.MonkeyPatch.context() as patch:
        score, fits = semi(run, patch)
    assert fits == FITS
    return score


@pytest.mark.parametrize("stops", [(1, 1), *(pytest.param((k,), marks=pytest.mark.slow) for k in (2, 3, 5))])
def test_nothing_that_was_finished_is_done_again(run, monkeypatch, undisturbed, stops):
    """Stopped between candidates, in the last training, before the control, in the middle of it; once or twice."""
    for stop in stops:
        semi(run, monkeypatch, stop_at=stop)
    assert not (run / "scores.jsonl").exists()
    assert semi(run, monkeypatch) == (undisturbed, FITS - sum(stops))
    assert not (run / FILE).exists()


def test_the_next_evaluation_starts_anew(run, monkeypatch, undisturbed):
    for _ in range(2):
        assert semi(run, monkeypatch) == (undisturbed, FITS)


@pytest.mark.slow
def test_another_evaluation_in_between_costs_nothing(run, monkeypatch, undisturbed):
    semi(run, monkeypatch, stop_at=4)
    evaluate(run, "knn")
    semi(run, monkeypatch, few=replace(FEW, subset_seed=1))
    assert semi(run, monkeypatch) == (undisturbed, FITS - 4)


@pytest.mark.slow
def test_results_of_something_else_are_not_used(run, monkeypatch):
    """Other labels, another encoder, another commit."""
    semi(run, monkeypatch, stop_at=4)
    assert semi(run, monkeypatch, few=replace(FEW, subset_seed=1))[1] == FITS
    with monkeypatch.context() as patch:
        patch.setattr("hardpair.evaluate.context.commit", lambda: "another")
        assert semi(run, patch)[1] == FITS
    encoder = load_encoder(run)
    encoder.trunk.bn1.bias.data.add_(1)
    save_encoder(encoder, run, step=encoder.step)
    assert semi(run, monkeypatch)[1] == FITS - 1  # but for the control's first candidate


BROKEN = b"\xff\n[]\n{\n3\n" + b"[" * 10**5 + b'\n{"key": 3}\n{"found": 3}\n'
NO_METRICS = {"metrics": {}, "chosen": {}, "seconds": 1.0}


@pytest.mark.parametrize(
    "found",
    [
        pytest.param((None, True, "x"), marks=pytest.mark.slow),
        (101.0, -0.5, NO_METRICS),
        pytest.param((float("nan"), [], {}), marks=pytest.mark.slow),
    ],
)
def test_invalid_lines_are_ignored(run, monkeypatch, undisturbed, found):
    semi(run, monkeypatch, stop_at=2)
    lines = (run / FILE).read_text().splitlines()
    (run / FILE).unlink()
    semi(run, monkeypatch, stop_at=3)
    keys = [json.loads(line)["key"] for line in [*lines, (run / FILE).read_text()]]
    assert len(keys) == 3  # two candidates, and the encoder's measurement, which they led to
    changed = "".join(json.dumps({"key": key, "found": bad}) + "\n" for key, bad in zip(keys, found, strict=True))
    (run / FILE).write_bytes(BROKEN + changed.encode() + b'{"key": "ha')
    assert semi(run, monkeypatch) == (undisturbed, FITS)


@pytest.mark.parametrize(
    "change",
    [{"seconds": float("inf")}, {"seconds": 1}, {"chosen": []}, {"metrics": []}, {"metrics": {"best": 3.0}}, {"x": 1}],
)
def test_what_a_measurement_looks_like(change):
    good = {"metrics": {"top1": 50.0, "top5": 100.0}, "chosen": {"rate": 0.1}, "seconds": 2.5}
    assert is_measurement(good)
    assert not is_measurement({**good, **change})


def test_candidates_that_diverged_are_not_tried_again(run, monkeypatch):
    few = replace(FEW, preset="diverging")
    semi(run, monkeypatch, stop_at=1, few=few)
    assert json.loads((run / FILE).read_text().splitlines()[0])["found"] == -1
    assert semi(run, monkeypatch, few=few)[1] == FITS - 1


def test_a_control_that_diverged_is_not_tried_again(run, monkeypatch):
    """Its training fails, then the next share of labels is stopped."""
    few = replace(QUICK, labels=(0.02, 0.04))
    failing = []

    def fail(*_):
        failing.append(1)
        return Measurement({}, {"diverged": "here"})

    monkeypatch.setattr("hardpair.evaluate.evaluate._try_control", fail)
    semi(run, monkeypatch, stop_at=1, few=few)
    CONTROLS.clear()
    scores, _ = evaluate(run, "semi", settings=Settings(tuned=few))
    assert [score["control"] for score in scores] == [{}, {}]
    assert len(failing) == 2


def test_several_ranks_write_no_partial_results(run, monkeypatch):
    semi(run, monkeypatch, stop_at=1)
    before = (run / FILE).read_bytes()
    monkeypatch.setattr(distributed, "world_size", lambda: 2)
    results = PartialResults(run)
    assert results.get_or_compute([], lambda: 3, lambda _: True) == 3
    results.clear()
    assert (run / FILE).read_bytes() == before


def test_the_command_says_that_it_continues(run, monkeypatch, capsys):
    words = ["evaluate", str(run), "--protocol", "semi", "--labels", ".02", "--preset", "byol", "--epochs", "1"]
    monkeypatch.setattr(sys, "argv", ["hardpair", *words])
    with monkeypatch.context() as patch:
        interrupt_fit(patch, 2)
        with pytest.raises(SystemExit) as stop:
            cli.main()
    assert stop.value.code == 130
    assert "the same command" in capsys.readouterr().err
    fits = interrupt_fit(monkeypatch, None)
    assert cli.run_verb(words) == 0
    assert len(fits) == 2 * 6 - 2
    assert str(run / FILE) in capsys.readouterr().out
