"""What the command line asks for, checked, is what the protocols get."""

from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from hardpair.cli import run_verb
from hardpair.cli.arguments import parse
from hardpair.cli.evaluate import Evaluate, protocol_options
from hardpair.data.transfer import TRANSFER_SETS
from hardpair.errors import UserError
from hardpair.evaluate import Settings
from hardpair.evaluate.evaluate import PROTOCOLS
from hardpair.protocol_settings import (
    RANGES,
    USED_BY,
    Distilled,
    Knn,
    PresetName,
    ProtocolName,
    SetName,
    Transferred,
    Tuned,
    settings_from,
)
from hardpair.recipes.tuning import PRESETS


def settings(*words):
    options = parse(Evaluate, ["runs/x", *words], "hardpair evaluate")
    return settings_from(options.protocol, dict(protocol_options(options)))


def test_the_defaults_are_the_published_settings():
    assert settings() == Settings()
    assert Settings().knn == Knn(k=200, temperature=0.1)


def test_names_on_the_command_line_are_those_of_the_code():
    assert PresetName.__args__ == tuple(PRESETS)
    assert SetName.__args__ == tuple(TRANSFER_SETS)
    assert set(ProtocolName.__args__) == PROTOCOLS.keys()


@pytest.mark.parametrize(
    ("words", "field", "expected"),
    [
        ("--k 5 --temperature .07", "knn", Knn(5, 0.07)),
        ("--protocol linear --augmented --epochs 3", "tuned", Tuned(augmented=True, epochs=3)),
        ("--protocol semi --labels .5 --preset byol", "tuned", Tuned(labels=(0.5,), preset="byol")),
        ("--protocol semi --subset-seed 3 --batch-size 9", "tuned", Tuned(subset_seed=3, batch_size=9)),
        ("--protocol distill --learner resnet18 --learner-width 2", "distilled", Distilled("resnet18", 2.0)),
        ("--protocol transfer --sets pets --download", "transferred", Transferred(("pets",), download=True)),
        ("--protocol transfer --finetune --steps 9", "transferred", Transferred(finetune=True, steps=9)),
    ],
)
def test_each_option_arrives(words, field, expected):
    assert getattr(settings(*words.split()), field) == expected


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--labels .5 --preset byol", "labels: .* --protocol semi or distill$"),
        ("--preset byol", "preset: .* --protocol semi or distill$"),
        ("--protocol transfer --subset-seed 1", "subset_seed: .* --protocol semi or distill$"),
        ("--protocol linear --k 5 --temperature .07", "k: .* --protocol knn$"),
        ("--protocol linear --temperature .07", "temperature: .* --protocol knn$"),
        ("--protocol transfer --data photos", "data: .* --protocol knn or linear or semi or distill$"),
        ("--epochs 3", "epochs: .* --protocol semi or distill or linear --augmented$"),
        ("--protocol knn --batch-size 8", "batch_size: .* --protocol semi or distill or linear --augmented$"),
        ("--protocol knn --augmented", "augmented: .* --protocol linear$"),
        ("--protocol knn --augmented --epochs 3", "augmented: .* --protocol linear$"),
        ("--protocol transfer --steps 9", "steps: .* --protocol transfer --finetune$"),
        ("--protocol transfer --grid published", "grid: .* --protocol transfer --finetune$"),
        ("--finetune --steps 9", "finetune: .* --protocol transfer$"),
        ("--sets pets", "sets: .* --protocol transfer$"),
        ("--protocol semi --learner resnet18", "learner: .* --protocol distill$"),
        ("--protocol distill --learner-width 2", "learner_width: goes with --learner"),
    ],
)
def test_an_option_that_no_protocol_uses_is_refused(words, line):
    with pytest.raises(UserError, match=f"^{line}"):  # before the run is looked for
        run_verb(["evaluate", "runs/nowhere", *words.split()])


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--protocol", "protocol: .* knn, linear, semi, transfer, distill"),
        ("--protocol semi --labels", "labels: "),
        ("--k 0", "k: must be between 1 and"),
        ("--temperature nan", "temperature: must be between 0.0001 and 10000, not nan"),
        ("--temperature inf", "temperature: "),
        ("--temperature 0", "temperature: "),
        ("--image-size 0", "image_size: must be between 8 and 1024, not 0"),
        ("--image-size -32", "image_size: "),
        ("--protocol semi --epochs 0", "epochs: must be between 1 and"),
        ("--protocol semi --batch-size 1", "batch_size: must be between 2 and"),
        ("--protocol distill --learner-epochs 0", "learner_epochs: "),
        ("--protocol distill --learner-batch-size 1", "learner_batch_size: "),
        ("--protocol transfer --finetune --steps 0", "steps: "),
    ],
)
def test_a_value_out_of_range_is_refused(words, line):
    with pytest.raises(UserError, match=f"^{line}"):  # before the run is looked for
        run_verb(["evaluate", "runs/nowhere", *words.split()])


def test_every_option_of_a_protocol_is_in_the_table():
    groups = (field.type for field in fields(Evaluate) if is_dataclass(field.type))
    assert {field.name for group in groups for field in fields(group)} | {"data"} == USED_BY.keys()
    used = {user.split()[0] for users in USED_BY.values() for user in users}
    assert used == set(ProtocolName.__args__)
    assert RANGES.keys() <= USED_BY.keys()


@pytest.mark.parametrize(
    "words",
    [
        "",
        "--data photos --image-size 64 --on validation",
        "--k 5 --temperature .07",
        "--protocol knn transfer --data photos",
        "--protocol semi --labels 0.01 0.1 --data cifar10",
        "--protocol distill --learner resnet18 --preset byol --epochs 3",
        "--protocol linear --augmented",
        "--protocol transfer --data-root sets --finetune --grid published --sets pets flowers102",
    ],
)
def test_options_that_are_used_are_accepted(words):
    settings(*words.split())


def test_unknown_settings_from_python():
    with pytest.raises(UserError, match=r"^kk: .*temperature"):
        settings_from(["knn"], {"kk": 3})


def test_options_of_a_run():
    options = parse(Evaluate, ["runs/x", "--image-size", "64", "--data-root", "sets"], "hardpair evaluate")
    assert (options.run, options.image_size, options.data_root) == ("runs/x", 64, Path("sets"))
