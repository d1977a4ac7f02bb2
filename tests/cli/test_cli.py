"""The command line as a person meets it: real processes, real exit codes."""

import json
import os
import shlex
import signal
import subprocess
import sys

import pytest

from hardpair.cli import main, run_verb
from hardpair.cli.pretrain import Pretrain
from hardpair.cli.recipe_arguments import parse_recipe
from hardpair.errors import UserError
from hardpair.methods import METHODS
from hardpair.train.cost import Here


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["pretrian"], "did you mean pretrain"),
        (["pretrain", "dmeo"], "recipe: there is no 'dmeo'; did you mean demo"),
        (["pretrain", "--epoch", "3"], "--epoch: there is no such option; did you mean --epochs"),
        (["pretrain", "--lr", "3"], "--lr: there is no such option; it is --learning-rate here"),
        (["pretrain", "--device", "gpu"], "device: 'gpu' cannot be used (no such device; a GPU is called cuda)"),
        (["pretrain", "--tua=3"], "--tua: there is no such option; did you mean --tau"),
        (["pretrain", "--epochs", "many"], "--epochs"),
        (["pretrain", "--epochs", "0"], "epochs: must be between 1 and"),
        (["pretrain", "--optimiser", "adm"], "--optimiser"),
        (["pretrain", "--method", "hnmp"], "did you mean hnpm"),
        (["pretrain", "--method"], "--method: needs a value"),
        (["pretrain", "--data", "no/such/folder"], "no/such/folder"),
        (["pretrain", "--device", "tpu9"], "device: 'tpu9' cannot be used"),
        (["pretrain", "--threads", "-1"], "threads"),
        (["pretrain", "--checkpoint-every", "0"], "checkpoint_every"),
        (["plan", "dmeo"], "recipe: there is no 'dmeo'; did you mean demo"),
        (["plan", "--gpu", "3"], "--gpu: there is no such option; did you mean --gpus"),
        (["plan", "paper", "--gpus", "3"], "batch_size: 160 cannot be divided among 3 GPUs; 159 can"),
        (["plan", "--gpus", "0"], "gpus: must be between 1 and"),
        (["plan", "paper", "--gpus", "160"], "gpus: 160 leave one image"),
        (["plan", "paper", "--gpus", "320"], "batch_size: 160 cannot be divided among 320 GPUs; 640 can"),
        (["plan", "--tflops", "0"], "tflops: must be between"),
        (["plan", "--memory", "-1"], "memory: must be between"),
        (["plan", "--memory", "nan"], "memory: must be between"),
        (["plan", "--hours", "0", "--gpus", "1", "--no-here"], "hours: must be between"),
        (["plan", "--hours", ".001", "--gpus", "1", "--tflops", ".001"], "hours: an epoch of 5,000 images takes"),
        (["plan", "--images", "1"], "images: must be between 2 and"),
        (["plan", "paper", "--images", "100"], "batch_size: 160 is more than the 100 training images"),
        (["plan", "--data", "no/such/folder"], "no/such/folder: no such folder"),
        (["plan", "--data", "cifar"], "did you mean cifar10"),
        (["plan", "--data", "sample:7"], "give 10 to 5000"),
        (["plan", "demo/infomin", "--image-size", "16"], "image_size: infomin's jigsaw"),
        (["plan", "--encoder", "resnet51"], "encoder: there is no 'resnet51'"),
        (["plan", "--run", "runs/x"], "--run: there is no such option"),
        (["doctor", "--dat", "x"], "--dat: there is no such option; did you mean --data"),
        (["evaluate", "nowhere"], "nowhere"),
        (["evaluate"], "RUN"),
        (["evaluate", "nowhere", "--protocol", "kn"], "--protocol"),
        (["evaluate", "nowhere", "--preset", "byo"], "--preset"),
        (["evaluate", "nowhere", "--sets", "pet"], "--sets"),
        (["evaluate", "nowhere", "--protocol", "semi", "--batch-size", "1"], "batch_size: must be between 2 and"),
        (["report", "nowhere"], "nowhere"),
        (["report"], "run: give at least one"),
        (["report", "--paper", "nowhere"], "nowhere"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(monkeypatch, capsys, tmp_path, arguments, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["hardpair", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    said = capsys.readouterr().err
    assert stop.value.code == 2
    assert words in said
    assert len(said.strip().splitlines()) == 1, said
    assert list(tmp_path.iterdir()) == []


def test_a_mistake_in_a_real_process(hardpair):
    done = hardpair("pretrian")
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["compare", "--help"]])
def test_a_reader_who_has_seen_enough(arguments):
    """As `hardpair recipes | head -1`: no word about the pipe."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "hardpair", *arguments]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def test_help_and_mistakes_do_not_wait_for_what_only_training_needs():
    """These take longer to import than all else together."""
    heavy = ("timm", "torchvision", "torch._dynamo", "torch.distributed.tensor", "numba", "sklearn", "matplotlib")
    words = "import sys, hardpair.cli.recipe_arguments; print([name for name in sys.argv[1:] if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", words, *heavy], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_help_teaches(hardpair, monkeypatch, capsys):
    assert "hardpair pretrain [RECIPE]" in hardpair("--help").stdout
    monkeypatch.setattr("sys.argv", ["hardpair", "pretrain", "--help"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 0
    text = capsys.readouterr().out
    first = ["--data", "--image-size", "--epochs", "--run", "--resume"]  # what a newcomer needs
    places = [text.index(f" {option} ") for option in [*first[:-1], "--resume,", "--method", "--tau", "--device"]]
    assert places == sorted(places)
    assert "share of the old student" in text


def test_only_near_words_are_suggested():
    for option in ("--wandb", "--kubernetes"):
        with pytest.raises(UserError) as error:
            run_verb(["pretrain", option, "x"])
        assert option in str(error.value)
        assert "did you mean" not in str(error.value)
        assert "--help" in str(error.value)


def test_plan(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert run_verb(["plan", "demo/simclr", "--width", ".125", "--gpus", "2", "--no-here"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("demo/simclr: simclr, resnet10 of width 0.125")
    assert "2 GPUs" in said.splitlines()[2]
    assert "\nfits: " in said
    assert run_verb(["plan", "demo/simclr", "--no-here", "--json", "--tflops", "1", "--memory", "16"]) == 0
    assert json.loads(capsys.readouterr().out)["gpus"] == {"count": 1, "tflops": 1.0, "memory": 16e9, "shard": False}
    assert list(tmp_path.iterdir()) == []


def test_plan_times_steps_unless_told_not_to(monkeypatch, capsys):
    monkeypatch.setattr("hardpair.train.plan.time_steps", lambda *_: Here("cpu", 1, 5, 0.02))
    for words, timed in (([], True), (["--here"], True), (["--no-here"], False)):
        assert run_verb(["plan", "demo/simclr", "--width", ".125", *words]) == 0
        assert ("20.0 ms per step" in capsys.readouterr().out.splitlines()[1]) == timed


@pytest.mark.parametrize(
    ("words", "start"),
    [
        ([], "hardpair pretrain demo/simclr "),
        (["--gpus", "1", "--no-here"], "hardpair pretrain demo/simclr "),
        (["--gpus", "2", "--shard", "--no-here"], "torchrun --nproc-per-node 2 -m hardpair -- pretrain demo/simclr "),
    ],
)
def test_the_command_of_plan_trains_what_was_planned(monkeypatch, capsys, words, start):
    """Every field that was given, and nothing to add."""
    monkeypatch.setattr("hardpair.train.plan.time_steps", lambda *_: Here("cpu", 1, 5, 0.02))
    given = ["demo/simclr", "--data", "my photos", "--width", ".125", "--micro-batch=8", "--no-small-images", "--sk"]
    given += ["--encoder", "resnet26", "--temperature", ".3", "--precision", "bfloat16", "--weight-decay", "1e-6"]
    planned = [*given, "--images", "5000", "--hours", ".1", "--memory", "70", *words]
    assert run_verb(["plan", *planned]) == 0
    command = capsys.readouterr().out.splitlines()[2].strip()
    assert command.startswith(start)
    assert ("--shard" in command) == ("--shard" in words)
    pasted = shlex.split(command)
    pasted = pasted[pasted.index("pretrain") + 1 :]
    theirs, options = parse_recipe(pasted, Pretrain, "pretrain", "")
    ours, _ = parse_recipe([*given, "--epochs", pasted[-1]], Pretrain, "pretrain", "")
    assert theirs == ours
    assert options == Pretrain(shard="--shard" in words)
    assert run_verb(["plan", *planned, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["fitted"]["command"] == command


def test_the_command_of_plan_has_the_method_as_it_was_typed(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("hardpair.train.plan.time_steps", lambda *_: Here("cpu", 1, 5, 0.02))
    (tmp_path / "my.py").write_text("from hardpair.methods.simclr import SimCLR\n\nclass Mine(SimCLR):\n    pass\n")
    for method in (f"{tmp_path}/my.py:Mine", "moco"):
        assert run_verb(["plan", "demo", "--method", method, "--hours", ".1"]) == 0
        assert f" pretrain demo --method {method} --epochs " in capsys.readouterr().out
    METHODS.pop("Mine")


def test_no_command_for_what_does_not_fit(capsys):
    words = ["--gpus", "2", "--hours", "1", "--no-here", "--memory", ".01"]
    assert run_verb(["plan", "demo/simclr", *words]) == 0
    assert "no command, since it does not fit" in capsys.readouterr().out
    assert run_verb(["plan", "demo/simclr", *words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["fitted"]["command"] == ""


def test_help_of_plan(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["hardpair", "plan", "--help"])
    with pytest.raises(SystemExit):
        main()
    text = capsys.readouterr().out
    assert "hardpair plan [RECIPE]" in text
    assert "What a training will need" in text
    assert "--gpus" in text


SMALL = ["--data", "sample:1000", "--width", ".0625", "--image-size", "8", "--batch-size", "25"]


def test_the_whole_way(tmp_path, monkeypatch, capsys):
    """What the README promises, in small: a real command, Ctrl-C, resume, evaluate, report."""
    monkeypatch.chdir(tmp_path)
    pretrain = ["pretrain", *SMALL, "--epochs", "100", "--run", "runs/way"]
    process = subprocess.Popen(
        [sys.executable, "-m", "hardpair", *pretrain], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    said = next(line for line in process.stdout if line.startswith("step "))
    assert said.startswith("step 1/4000  loss ")  # a sign of life after the first step
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=120)
    assert "stopping after this step" in errors
    assert process.returncode == 128 + signal.SIGINT
    assert "--resume" in out
    content = json.loads((tmp_path / "runs/way/recipe.json").read_text())
    content["epochs"] = 2  # a shorter run goes on from there
    (tmp_path / "runs/way/recipe.json").write_text(json.dumps(content))
    assert run_verb(["pretrain", *SMALL, "--epochs", "2", "--run", "runs/way", "--resume"]) == 0
    assert "hnpm on 1,000 images of sample:1000/train" in capsys.readouterr().out
    assert run_verb(["evaluate", "runs/way", "--protocol", "knn", "linear"]) == 0
    assert "linear: top-1 " in capsys.readouterr().out
    assert run_verb(["report", "runs/way"]) == 0
    assert "linear" in capsys.readouterr().out
    assert (tmp_path / "runs/way/report.html").stat().st_size > 50_000
