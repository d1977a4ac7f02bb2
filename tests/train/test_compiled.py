"""torch.compile for a run: used when loss and gradients agree, said in a line, and the same after a stop.

Compilers that do something odd stand in for the real one, which takes a minute; slow tests have that.
"""

import dataclasses
import json
import signal
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
from hardpair.train import Outcome, compiled, pretrain
from hardpair.train.compiled import compile_if_wanted
from hardpair.train.run_folder import Log
from hardpair.train.step import Stepper


def wrong(values=0.0, gradients=0.0):
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
    """Choose a compiler."""
    return lambda compiler: monkeypatch.setattr(compiled, "BACKEND", compiler)


def stepper_of(recipe, **changes):
    images = open_images("sample", "train", size=8, root=Path())
    return Stepper(dataclasses.replace(recipe, **changes), images, torch.device("cpu"))


def uses(run):
    """Step, and whether compiled code is used from there on."""
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [(line["step"], line["used"]) for line in lines if line["event"] == "compile"]


def test_what_agrees_is_used_and_the_check_leaves_no_trace(small_recipe, tmp_path, use):
    """Weights, averages, statistics, queue, gradients, random numbers: all as before; and then the code is used."""
    calls = []
    use(as_it_is(calls))
    stepper = stepper_of(small_recipe, method="moco", settings={"queue": 600, "head_hidden": 32})
    before = {name: value.clone() for name, value in stepper.method.state_dict().items()}
    random_state = torch.get_rng_state()
    assert compile_if_wanted(stepper, Log(tmp_path / "log.jsonl"), 0, wanted=True).startswith("compiled")
    assert stepper.method.state_dict().keys() == before.keys()
    assert all(torch.equal(value, before[name]) for name, value in stepper.method.state_dict().items())
    assert all(parameter.grad is None for parameter in stepper.method.parameters())
    assert stepper.method.fresh == []
    assert torch.equal(torch.get_rng_state(), random_state)
    calls.clear()
    with torch.compiler.set_stance("fail_on_recompile"):  # what the copy compiled is what the run uses
        stepper.method.train()
        assert stepper.take(0).sound
    assert len(calls) == 2  # the trained encoder and the averaged one
    assert uses(tmp_path) == [(0, True)]


@pytest.mark.parametrize(
    ("compiler", "reason"),
    [
        (wrong(gradients=0.5), "gradients"),
        pytest.param(wrong(gradients=0.1), "gradients", marks=pytest.mark.slow),
        (wrong(values=0.01), "loss"),
        (wrong(values=float("nan")), "loss"),
        (failing, "out of luck in two lines"),
    ],
)
def test_wrong_code_is_not_used(small_recipe, tmp_path, use, compiler, reason):
    use(compiler)
    stepper = stepper_of(small_recipe, method="simclr", settings={"head_hidden": 32})
    found = compile_if_wanted(stepper, Log(tmp_path / "log.jsonl"), 0, wanted=True)
    assert found.startswith("not compiled: ")
    assert reason in found
    assert len(found.splitlines()[0]) == len(found) < 200
    assert uses(tmp_path) == [(0, False)]
    use(failing)  # would show if any of it were compiled
    stepper.method.train()
    assert stepper.take(0).sound


def test_batch_norm_statistics_count_as_results(small_recipe, tmp_path, use):
    """A compiler that leaves them as they were: loss and gradients of this step do not show it."""

    def forgetful(graph, inputs):
        def run(*arguments):
            before = [a.clone() if torch.is_tensor(a) else a for a in arguments]
            outputs = graph(*arguments)
            for argument, old in zip(arguments, before, strict=True):
                if torch.is_tensor(argument) and not argument.requires_grad:
                    argument.data.copy_(old)  # which autograd does not notice
            return outputs

        return run

    use(forgetful)
    found = compile_if_wanted(stepper_of(small_recipe), Log(tmp_path / "log.jsonl"), 0, wanted=True)
    assert "statistics" in found
    assert uses(tmp_path) == [(0, False)]


@pytest.mark.slow
def test_resumed_equals_uninterrupted(small_recipe, tmp_path, monkeypatch, use):
    """With code that rounds differently, so that a part of the run without it would show; the log decides, no flag."""
    recipe, runs = dataclasses.replace(small_recipe, epochs=1), [tmp_path / name for name in ("straight", "halves")]
    use(wrong(values=1e-7))
    pretrain(recipe, runs[0], compiled=True)
    with monkeypatch.context() as patch:
        interrupt_at(patch, 6)
        assert pretrain(recipe, runs[1], compiled=True) == Outcome("stopped", 7, signal.SIGINT)
    assert pretrain(recipe, runs[1], resume=True).status == "finished"
    for file in ("encoder.safetensors", "checkpoints/000000020/state.safetensors", "pairs.json"):
        assert (runs[0] / file).read_bytes() == (runs[1] / file).read_bytes(), file
    assert uses(runs[1]) == [(0, True), (7, True)]
    pretrain(recipe, tmp_path / "plain")
    assert (tmp_path / "plain/encoder.safetensors").read_bytes() != (runs[0] / "encoder.safetensors").read_bytes()


def test_a_resumed_run_keeps_what_it_began_with(small_recipe, tmp_path, use):
    use(failing)
    stepper, log = stepper_of(small_recipe), Log(tmp_path / "log.jsonl")
    assert compile_if_wanted(stepper, log, 3, wanted=False) == ""
    assert "began without" in compile_if_wanted(stepper, log, 3, wanted=True)
    log.write("compile", step=3, used=True)
    assert "the compiler failed" in compile_if_wanted(stepper, log, 5, wanted=False)  # it cannot, and says so
    assert compile_if_wanted(stepper, log, 7, wanted=False) == ""  # once
    assert uses(tmp_path) == [(3, True), (5, False)]


def test_a_sharded_method_is_refused(small_recipe, tmp_path):
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
def test_several_ranks_do_the_same(case, broken, tmp_path):
    together(2, shared_compiling.compile_together, tmp_path, case, broken)
    found = [(tmp_path / f"{rank}.txt").read_text().split("\n") for rank in (0, 1)]
    if broken:
        assert "another rank" in found[0][0]
        assert found[0][1] == "0"
        assert "the compiler failed" in found[1][0]
    else:
        assert all(words.startswith("compiled") for words, _ in found)
        assert int(found[0][1]) == int(found[1][1]) > 0
    assert uses(tmp_path) == [(0, not broken)]


@pytest.mark.soak
def test_the_real_compiler(small_recipe, tmp_path):
    """It must agree; and a stopped run is bit-exact."""
    recipe = dataclasses.replace(small_recipe, epochs=1, settings={**small_recipe.settings, "small_views": 1})
    pretrain(recipe, tmp_path / "straight", compiled=True)
    assert uses(tmp_path / "straight") == [(0, True)]
    assert pretrain(recipe, tmp_path / "halves", compiled=True, until=7).status == "paused"
    assert pretrain(recipe, tmp_path / "halves", resume=True).status == "finished"
    halves, straight = (tmp_path / name / "encoder.safetensors" for name in ("halves", "straight"))
    assert halves.read_bytes() == straight.read_bytes()
