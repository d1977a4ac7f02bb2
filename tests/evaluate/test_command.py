"""What the command line says is what the protocols are told."""

from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from hardpair.cli.arguments import parse
from hardpair.data.transfer import TRANSFER_SETS
from hardpair.errors import UserError
from hardpair.evaluate.command import USED_BY, settings_from
from hardpair.evaluate.distill import Distilling
from hardpair.evaluate.probe import Probing
from hardpair.evaluate.run import Settings
from hardpair.evaluate.semi import FewLabels
from hardpair.evaluate.transfer import GRIDS, Transfer
from hardpair.options import Evaluate, PresetName, ProtocolName, SetName
from hardpair.recipes.tuning import PRESETS


def settings(*words):
    return settings_from(parse(Evaluate, ["runs/x", *words], "hardpair evaluate"))


def test_nothing_said_is_as_published():
    assert settings() == Settings(knn={"k": 200, "temperature": 0.1})


def test_names_on_the_command_line_are_those_of_the_code():
    assert PresetName.__args__ == tuple(PRESETS)
    assert SetName.__args__ == tuple(TRANSFER_SETS)
    assert ProtocolName.__args__ == ("knn", "linear", "semi", "transfer", "distill")


@pytest.mark.parametrize(
    ("words", "field", "expected"),
    [
        ("--protocol linear --augmented --epochs 3 --batch-size 64", "probing", Probing(epochs=3, batch_size=64)),
        ("--protocol semi --labels .5 --preset byol", "few_labels", FewLabels((0.5,), "byol", PRESETS["byol"])),
        ("--protocol semi --subset-seed 3", "few_labels", FewLabels(subset_seed=3)),
        ("--protocol distill --learner resnet18 --learner-width 2", "distilling", Distilling("resnet18", 2.0)),
        ("--protocol distill --learner-epochs 7 --learner-batch-size 9", "distilling", Distilling(None, 1.0, 7, 9)),
        ("--protocol transfer --sets pets --finetune", "transfer", Transfer(("pets",), "finetune", GRIDS["short"])),
        ("--protocol transfer --download", "transfer", Transfer(download=True)),
        ("--protocol transfer --finetune --grid published", "transfer", Transfer((), "finetune", GRIDS["published"])),
    ],
)
def test_each_option_arrives(words, field, expected):
    assert getattr(settings(*words.split()), field) == expected


def test_epochs_replace_every_published_length():
    preset = settings("--protocol", "semi", "--preset", "byol", "--epochs", "3").few_labels.preset
    assert preset.epochs == preset.epochs_with_few == (3,)
    assert settings("--protocol", "transfer", "--finetune", "--steps", "9").transfer.grid.steps == 9


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--labels .5 --preset byol", "labels: changes nothing here; it goes with --protocol semi or distill"),
        ("--preset byol", "preset: changes nothing here; it goes with --protocol semi or distill"),
        ("--protocol transfer --subset-seed 1", "subset_seed: changes nothing here; .* semi or distill"),
        ("--protocol linear --k 5 --temperature .07", "k: changes nothing here; it goes with --protocol knn$"),
        ("--protocol linear --temperature .07", "temperature: changes nothing here; it goes with --protocol knn$"),
        ("--protocol transfer --data photos", "data: .* --protocol knn or linear or semi or distill$"),
        ("--epochs 3", "epochs: .* --protocol semi or distill or linear --augmented$"),
        ("--protocol knn --batch-size 8", "batch_size: changes nothing here"),
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
def test_what_would_change_nothing_is_refused(words, line):
    with pytest.raises(UserError, match=f"^{line}"):
        settings(*words.split())


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--protocol", "protocol: give at least one of knn, linear, semi, transfer, distill"),
        ("--protocol semi --labels", "labels: give at least one share"),
        ("--k 0", "k: must be between 1 and"),
        ("--temperature nan", "temperature: must be between 0.0001 and 10000, not nan"),
        ("--temperature inf", "temperature: must be between"),
        ("--temperature 0", "temperature: must be between"),
        ("--image-size 0", "image_size: must be between 8 and 1024, not 0"),
        ("--image-size -32", "image_size: must be between"),
    ],
)
def test_what_cannot_be_is_refused(words, line):
    with pytest.raises(UserError, match=f"^{line}"):
        settings(*words.split())


def test_every_option_of_a_protocol_is_in_the_table():
    groups = (field.type for field in fields(Evaluate) if is_dataclass(field.type))
    assert {field.name for group in groups for field in fields(group)} | {"data"} == USED_BY.keys()
    used = {user.split()[0] for users in USED_BY.values() for user in users}
    assert used == set(ProtocolName.__args__)


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
def test_what_is_used_is_taken(words):
    settings(*words.split())


def test_options_of_a_run():
    options = parse(Evaluate, ["runs/x", "--image-size", "64", "--data-root", "sets"], "hardpair evaluate")
    assert (options.run, options.image_size, options.data_root) == (Path("runs/x"), 64, Path("sets"))
