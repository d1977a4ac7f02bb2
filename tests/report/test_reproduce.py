"""The commands under "How to reproduce": they run as they stand and give the same scores."""

import json
import re
import shlex
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from fake_run import RECIPE, score, write_lines
from noise_photos import write_photos

from hardpair.cli import run_verb
from hardpair.cli.arguments import parse
from hardpair.cli.evaluate import Evaluate
from hardpair.errors import UserError
from hardpair.protocol_settings import Transferred
from hardpair.report import write_report
from hardpair.report.reproduce import commands
from hardpair.report.run_files import read_run

TINY = "pretrain demo --data sample:200 --image-size 16 --batch-size 50 --epochs 2 --width 0.1 --no-mine --threads 1"
OWN_SCORES = (
    "--protocol knn --k 7 --data sample:400",
    "--protocol linear --on validation",
    "--protocol semi --labels 0.5 --epochs 1 --subset-seed 3 --image-size 24",
)


def printed(run: Path) -> list[list[str]]:
    html = write_report(run).read_text(encoding="utf-8")
    (code,) = re.findall("<pre><code>(.*?)</code>", html, re.DOTALL)
    return [shlex.split(line) for line in unescape(code).splitlines()]


def scores_of(run: Path) -> list[dict[str, Any]]:
    """All that must come out again."""
    lines = [json.loads(line) for line in (run / "scores.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in ("date", "seconds")} for line in lines]


def test_the_printed_commands_run_and_give_the_same_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first = Path("runs/my run")
    run_verb([*TINY.split(), "--run", str(first)])
    for options in OWN_SCORES:
        run_verb(["evaluate", str(first), *options.split(), "--threads", "1"])
    lines = printed(first)
    assert [words[:2] for words in lines] == [["hardpair", verb] for verb in ("pretrain", *["evaluate"] * 3, "report")]
    for words in lines:
        assert run_verb(words[1:]) == 0
    again = Path("runs/my run-again")
    assert scores_of(again) == scores_of(first)
    assert json.loads((again / "recipe.json").read_text()) == json.loads((first / "recipe.json").read_text())
    assert (again / "report.html").is_file()


def test_a_run_that_was_lengthened_on_images_of_which_some_are_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    photos = write_photos(tmp_path / "photos")
    for picture in photos.rglob("*3.png"):  # a tenth
        picture.write_bytes(b"not a picture")
    first = Path("runs/own")
    train = f"pretrain demo --data {photos} --image-size 8 --batch-size 50 --width 0.1 --threads 1 --run {first}"
    with pytest.raises(UserError, match="--skip-broken"):
        run_verb(shlex.split(f"{train} --epochs 1"))
    assert run_verb(shlex.split(f"{train} --skip-broken 0.5 --epochs 1")) == 0
    assert run_verb(shlex.split(f"{train} --skip-broken 0.5 --epochs 2 --resume")) == 0
    run_verb(["evaluate", str(first), "--protocol", "knn", "--skip-broken", "0.5", "--threads", "1"])
    lines = printed(first)
    assert [words[1] for words in lines] == ["pretrain", "pretrain", "evaluate", "report"]
    for words in lines:
        assert run_verb(words[1:]) == 0
    again = Path("runs/own-again")
    assert scores_of(again) == scores_of(first)
    assert json.loads((again / "recipe.json").read_text()) == json.loads((first / "recipe.json").read_text())


def options_for(run: Path, one: dict[str, Any]) -> str:
    write_lines(run / "scores.jsonl", [one])
    return shlex.join(commands(read_run(run))[1][3:])


@pytest.mark.parametrize(
    ("protocol", "settings", "expected"),
    [
        ("linear", {"form": "augmented", "epochs": 3, "batch_size": 64}, "--augmented --epochs 3 --batch-size 64"),
        (
            "semi",
            {"labels": 0.1, "preset": "byol", "epochs": [30, 50], "epochs_with_few": [30, 50], "batch_size": 16},
            "--labels 0.1 --preset byol --batch-size 16",
        ),
        (
            "distill",
            {"labels": 0.01, "learner": "resnet10", "learner_width": 0.5, "learner_epochs": 4, "learner_batch_size": 8},
            "--labels 0.01 --learner resnet10 --learner-width 0.5 --learner-epochs 4 --learner-batch-size 8",
        ),
        ("distill", {"learner": None, "learner_width": 2.0, "learner_epochs": 4}, "--learner-epochs 4"),
        ("transfer", {"set": "pets", "form": "linear"}, "--sets pets"),
        (
            "transfer",
            {"set": "pets", "form": "finetune", "rates": [0.1] * 7, "steps": 9},
            "--sets pets --finetune --grid published --steps 9",
        ),
    ],
)
def test_settings_become_options(run: Path, protocol: str, settings: dict[str, Any], expected: str) -> None:
    options = options_for(run, score(protocol, settings, 50.0, 40.0))
    assert options.startswith(f"--protocol {protocol} ")
    assert options.endswith(f"--threads 2 {expected}")
    assert ("--data sample" in options) == (protocol != "transfer")


def test_what_the_command_line_says_of_a_score_can_be_parsed(run: Path) -> None:
    one = {**score("transfer", {"set": "pets", "form": "finetune", "steps": 9}, 50.0, 40.0), "data_root": "my sets"}
    parsed = parse(Evaluate, shlex.split(f"run {options_for(run, one)}"), "hardpair evaluate")
    assert parsed.transferred == Transferred(("pets",), finetune=True, steps=9)
    assert parsed.data_root == Path("my sets")


def test_the_size_is_given_where_it_does_not_follow_from_the_images(run: Path) -> None:
    assert "--image-size" not in options_for(run, score("knn", {"k": 20}, 50.0, 40.0))
    large = {**RECIPE, "image_size": 320, "view_size": 0.7, "small_images": False}
    (run / "recipe.json").write_text(json.dumps(large))
    for size in (224, 320):
        options = options_for(run, {**score("knn", {"k": 20}, 50.0, 40.0), "image_size": size})
        assert f"--image-size {size}" in options


def test_several_processes_and_methods_of_ones_own(run: Path) -> None:
    (run / "recipe.json").write_text(json.dumps({**RECIPE, "method": "Mine"}))
    write_lines(
        run / "log.jsonl",
        [{"event": "start", "processes": 4, "device": "cuda:0", "threads": 8, "data_root": "my sets"}],
    )
    first = shlex.join(printed(run)[0])
    assert first.startswith("torchrun --nproc-per-node 4 -m hardpair -- pretrain demo ")
    assert "--method FILE.py:Mine " in first
    assert "--data-root 'my sets' --device cuda " in first
    assert "--threads" not in first


def test_every_method_is_known_by_name() -> None:
    """One that is not would be taken for a user's own."""
    from hardpair.methods import BUILT_IN
    from hardpair.report.markup import METHOD_NAMES

    assert {*BUILT_IN, "supervised"} == set(METHOD_NAMES)
