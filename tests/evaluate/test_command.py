"""What the command line says is what the protocols are told."""

from pathlib import Path

import pytest

from hardpair.arguments import parse
from hardpair.data.transfer import TRANSFER_SETS
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
        ("--augmented --epochs 3 --batch-size 64", "probing", Probing(epochs=3, batch_size=64)),
        ("--labels .5 --preset byol", "few_labels", FewLabels((0.5,), "byol", PRESETS["byol"])),
        ("--learner resnet18 --learner-width 2", "distilling", Distilling("resnet18", 2.0)),
        ("--learner-epochs 7 --learner-batch-size 99", "distilling", Distilling(epochs=7, batch_size=99)),
        ("--sets pets --finetune", "transfer", Transfer(("pets",), "finetune", GRIDS["short"])),
        ("--download --grid published", "transfer", Transfer((), "linear", GRIDS["published"], download=True)),
    ],
)
def test_each_option_arrives(words, field, expected):
    assert getattr(settings(*words.split()), field) == expected


def test_epochs_replace_every_published_length():
    preset = settings("--preset", "byol", "--epochs", "3").few_labels.preset
    assert preset.epochs == preset.epochs_with_few == (3,)
    assert settings("--steps", "9").transfer.grid.steps == 9


def test_options_of_a_run():
    options = parse(Evaluate, ["runs/x", "--image-size", "64", "--data-root", "sets"], "hardpair evaluate")
    assert (options.run, options.image_size, options.data_root) == (Path("runs/x"), 64, Path("sets"))
