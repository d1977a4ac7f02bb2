"""torch.compile for a run: used where it is faster and gives the same, said in a line, and the same after a stop.

Compilers that do something odd stand in for the real one, which takes minutes; one soak test has that.
"""

import dataclasses
import json
import re
import signal
import time
from pathlib import Path

import pytest
import shared_compiling
import torch
import torch._inductor.config
from interruption import interrupt_at
from shared_compiling import as_it_is, failing
from together import together

from hardpair.cli import run_verb
from hardpair.data import open_images
from hardpair.errors import UserError
from hardpair.train import Outcome, compiled, pretrain, trial
from hardpair.train.compiled import settle
from hardpair.train.run_folder import Log
from hardpair.train.step import Stepper


def slow(graph, inputs):
    """Right, but not fast: it keeps the processor busy, since on a busy machine one that sleeps is let in sooner."""

    def run(*arguments):
        end = time.process_time() + 0.1
        while time.process_time() < end:
            pass
        return graph(*arguments)

    return run


def wrong(values, gradients):
    """A compiler whose outputs are too large by such a share, and whose gradients are by another."""

    def compiler(graph, inputs):
        def run(*arguments):
            return tuple(wrong_by(output) for output in graph(*arguments))

        return run

    def wrong_by(output):
        bent = output + values * output.square()
        return bent + gradients * (output - output.detach())

    return compiler


@pytest.fixture
def use(monkeypatch):
    """Choose a compiler; its results count as fast enough unless something is said."""

    def choose(compiler, least=0.0):
        monkeypatch.setattr(compiled, "BACKEND", compiler)
        monkeypatch.setattr(compiled, "LEAST", least)
        monkeypatch.setattr(trial, "SECONDS", 0.0)

    return choose


def stepper_of(recipe, **changes):
    images = open_images("sample", "train", size=8, root=Path())
    return Stepper(dataclasses.replace(recipe, **changes), images, torch.device("cpu"))


def events(run):
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == "compile"]


def test_what_agrees_is_used_and_the_check_leaves_no_trace(small_recipe, tmp_path, use):
    """Weights, averages, statistics, queue, gradients, random numbers: all as before; and then the code is used."""
    calls = []
    use(as_it_is(calls))
    stepper = stepper_of(small_recipe, method="moco", settings={"queue": 600, "head_hidden": 32})
    before = {name: value.clone() for name, value in stepper.method.state_dict().items()}
    chance = torch.get_rng_state()
    words = settle(stepper, Log(tmp_path / "log.jsonl"), 0, wanted=True)
    assert words.startswith("compiled: ")
    assert words.endswith(" times as fast; the loss agrees within 0, gradients within 0")
    assert stepper.method.state_dict().keys() == before.keys()
    assert all(torch.equal(value, before[name]) for name, value in stepper.method.state_dict().items())
    assert all(parameter.grad is None for parameter in stepper.method.parameters())
    assert stepper.method.fresh == []
    assert torch.equal(torch.get_rng_state(), chance)
    calls.clear()
    with torch.compiler.set_stance("fail_on_recompile"):  # what the copy compiled is what the run uses
        stepper.method.train()
        assert stepper.take(0).sound
    assert len(calls) == 2  # the trained encoder and the averaged one
    assert events(tmp_path)[0]["used"] is True
    assert float(words.split()[1]) == pytest.approx(events(tmp_path)[0]["ratio"], abs=0.006)


@pytest.mark.parametrize(
    ("compiler", "least", "words"),
    [
        pytest.param(slow, compiled.LEAST, r"not compiled: no faster \(0\.\d\d times\)$", marks=pytest.mark.slow),
        pytest.param(
            wrong(0, 0.5),
            0.0,
            r"not compiled: gradients differ by 0\.\d, and rounding explains 0\.\d+ at most$",
            marks=pytest.mark.slow,
        ),
        (wrong(0.01, 0), 0.0, r"not compiled: the loss differs by 0\.0\d+, and rounding explains \de-0\d at most$"),
        (failing, 0.0, r"not compiled: the compiler failed \(.*out of luck in two lines.*\)$"),
    ],
)
def test_what_is_no_better_is_not_used(small_recipe, tmp_path, use, compiler, least, words):
    use(compiler, least)
    stepper = stepper_of(small_recipe, method="simclr", settings={"head_hidden": 32})
    found = settle(stepper, Log(tmp_path / "log.jsonl"), 0, wanted=True)
    assert re.match(words, found), found
    assert len(found.splitlines()[0]) == len(found) < 200
    assert events(tmp_path)[0]["used"] is False
    use(failing)  # would show if any of it were compiled
    stepper.method.train()
    assert stepper.take(0).sound


def test_statistics_count_as_results(small_recipe):
    again = trial.Trial(stepper_of(small_recipe), 0)
    first, second = again.results(), again.results()
    assert trial.apart(first, first) == {"loss": 0, "gradients": 0, "statistics": 0}
    assert trial.apart(second, first)["statistics"] > 0.1  # which a second forward has moved
    assert trial.apart(second, first)["loss"] == 0


def test_turns_go_on_while_any_process_wants_more(small_recipe, monkeypatch):
    """Else one whose clock is ahead would leave the others waiting in a turn."""
    answers = iter([True, True, True, False])  # of a slower one, whose turns are not over
    monkeypatch.setattr(trial, "TURNS", 1)
    monkeypatch.setattr(trial, "SECONDS", 0.0)
    monkeypatch.setattr(trial.distributed, "any_rank", lambda _, device: [next(answers)])  # noqa: ARG005
    stepper, taken = stepper_of(small_recipe), []
    before, after = trial.Trial(stepper, 0), trial.Trial(stepper, 0)
    monkeypatch.setattr(before, "take", lambda: taken.append(1))
    trial.gain(before, after)
    assert len(taken) == 3


@pytest.mark.slow
def test_resumed_equals_uninterrupted(small_recipe, tmp_path, monkeypatch, use):
    """With code whose last bits are others, so that a part of the run without it would show."""
    recipe, runs = dataclasses.replace(small_recipe, epochs=1), [tmp_path / name for name in ("straight", "halves")]
    use(wrong(1e-7, 0))
    pretrain(recipe, runs[0], compiled=True)
    with monkeypatch.context() as patch:
        interrupt_at(patch, 6)
        assert pretrain(recipe, runs[1], compiled=True) == Outcome("stopped", 7, signal.SIGINT)
    use(wrong(1e-7, 0), least=1e9)  # measured again, it would be refused
    assert pretrain(recipe, runs[1], compiled=True, resume=True).status == "finished"
    for file in ("encoder.safetensors", "checkpoints/000000020/state.safetensors", "pairs.json"):
        assert (runs[0] / file).read_bytes() == (runs[1] / file).read_bytes(), file
    assert [(line["used"], line["step"]) for line in events(runs[1])] == [(True, 0), (True, 7)]
    assert events(runs[1])[1]["text"] == "compiled, as before"
    pretrain(recipe, tmp_path / "uncompiled")
    assert (tmp_path / "uncompiled/encoder.safetensors").read_bytes() != (runs[0] / "encoder.safetensors").read_bytes()


def test_the_choice_outlives_a_run_that_was_killed_before_its_first_checkpoint(tmp_path):
    log = Log(tmp_path / "log.jsonl")
    log.write("compile", step=0, used=True)
    log.write("step", step=10)
    log.rewind(0)
    assert log.last("compile") == {"event": "compile", "step": 0, "used": True}
    assert log.last("step") is None


def test_a_run_that_began_without_goes_on_without(small_recipe, tmp_path, use):
    use(failing)
    stepper, log = stepper_of(small_recipe), Log(tmp_path / "log.jsonl")
    assert settle(stepper, log, 3, wanted=False) == ""
    assert settle(stepper, log, 3, wanted=True) == "not compiled: the run began without --compile"
    assert settle(stepper, log, 5, wanted=True) == "not compiled, as before"


def test_a_choice_that_cannot_be_kept_is_said(small_recipe, tmp_path, use):
    use(failing)
    stepper, log = stepper_of(small_recipe), Log(tmp_path / "log.jsonl")
    log.write("compile", step=0, used=True)
    assert settle(stepper, log, 3, wanted=True).startswith("no longer compiled: the compiler failed (")
    log.write("compile", step=4, used=True)
    words = "no longer compiled, since --compile was not given: its last bits will be others"
    assert settle(stepper, log, 5, wanted=False) == words
    assert settle(stepper, log, 6, wanted=False) == ""  # said once
    assert settle(stepper, log, 7, wanted=True) == "not compiled, as before"


def test_a_cut_method_is_refused(small_recipe, tmp_path):
    with pytest.raises(UserError, match="--shard"):
        pretrain(small_recipe, tmp_path / "run", shard=True, compiled=True)
    assert not (tmp_path / "run").exists()


COMMAND = ["--encoder", "resnet10", "--width", ".0625", "--image-size", "8", "--batch-size", "1000", "--epochs", "1"]


@pytest.mark.slow
def test_the_option_on_a_machine_without_a_compiler(tmp_path, monkeypatch, capsys):
    """The real compiler, which then has nothing to call."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))  # nor anything compiled earlier
    with torch._inductor.config.patch({"cpp.cxx": ("/no/such/compiler",)}):
        assert run_verb(["pretrain", *COMMAND, "--compile", "--run", str(tmp_path / "run")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "compiling the encoders, which may take some minutes"
    assert lines[1] == "not compiled: this machine has no C++ compiler"
    assert lines[-1].startswith(f"{tmp_path / 'run'}: finished")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "broken"),
    [
        ("moco, in splits", True),
        pytest.param("moco, in splits", False, marks=pytest.mark.soak),
        pytest.param("hnpm, soft", False, marks=pytest.mark.soak),
    ],
)
def test_several_processes_choose_the_same(case, broken, tmp_path):
    together(2, shared_compiling.choose_together, tmp_path, case, broken)
    found = [(tmp_path / f"{place}.txt").read_text().split("\n") for place in (0, 1)]
    if broken:
        assert found[0] == ["not compiled: another process could not", "0"]
        assert found[1][0].startswith("not compiled: the compiler failed (")
    else:
        assert all(words.startswith("compiled: ") for words, _ in found)
        assert int(found[0][1]) == int(found[1][1]) > 0
    assert [line["used"] for line in events(tmp_path)] == [not broken]


@pytest.mark.soak
def test_the_real_compiler(small_recipe, tmp_path, monkeypatch):
    """Whether or not it is faster here, it must agree; and a stopped run ends with the same bits."""
    monkeypatch.setattr(compiled, "LEAST", 0.0)
    recipe = dataclasses.replace(small_recipe, epochs=1, settings={**small_recipe.settings, "small_views": 1})
    pretrain(recipe, tmp_path / "straight", compiled=True)
    assert events(tmp_path / "straight")[0]["used"], events(tmp_path / "straight")
    assert pretrain(recipe, tmp_path / "halves", compiled=True, until=7).status == "paused"
    assert pretrain(recipe, tmp_path / "halves", compiled=True, resume=True).status == "finished"
    halves, straight = (tmp_path / name / "encoder.safetensors" for name in ("halves", "straight"))
    assert halves.read_bytes() == straight.read_bytes()
