"""What the command line says is what the protocols are told."""

from pathlib import Path

import pytest

from hardpair.arguments import parse
from hardpair.data.transfer import TRANSFER_SETS
from hardpair.errors import UserError
from hardpair.evaluate.command import settings_from
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
    "words",
    [
        "--epochs 3",
        "--protocol knn --batch-size 8",
        "--protocol knn --augmented",
        "--protocol transfer --steps 9",
        "--sets pets",
        "--protocol semi --learner resnet18",
        "--protocol distill --learner-width 2",
        "--protocol semi --labels",
        "--k 0",
    ],
)
def test_what_would_change_nothing_is_refused(words):
    with pytest.raises(UserError):
        settings(*words.split())


def test_options_of_a_run():
    options = parse(Evaluate, ["runs/x", "--image-size", "64", "--data-root", "sets"], "hardpair evaluate")
    assert (options.run, options.image_size, options.data_root) == (Path("runs/x"), 64, Path("sets"))
