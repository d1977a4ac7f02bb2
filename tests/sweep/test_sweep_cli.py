"""What the command line accepts and refuses, and the files it leaves, for both verbs."""

from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from small_sweeps import ablate_words, compare_words

from hardpair import cli
from hardpair.cli.ablate import main as ablate
from hardpair.cli.compare import main as compare
from hardpair.errors import UserError

COMPARE_MISTAKES = [
    (["--methods", "hnpm,simclear"], "methods: there is no 'simclear'; did you mean simclr?"),
    (["--methods", ","], "methods: give some"),
    (["--family", "demos"], "family: there is no 'demos'; did you mean demo?"),
    (["--seeds", "0"], "seeds: must be between 1 and"),
    (["--budget", "0"], "budget: must be between 1 and"),
    (["--labels", "10"], "labels: must be between 1e-06 and 1"),
    (["--labels", "0"], "labels: must be between 1e-06 and 1"),
    (["--encoder", "resnet11"], "hnpm: encoder: there is no 'resnet11'"),
    (["--unit", "hours"], "--unit"),
    (["--on", "train"], "--on"),
]
ABLATE_MISTAKES = [
    ("tua", [], "tua"),
    ("tau", ["--recipe", "demo/byol"], "recipe: demo/byol is of byol, and the ablations are of hnpm: give"),
    ("tau", ["--recipe", "demo/hnmp"], "recipe: there is no 'demo/hnmp'; did you mean demo/hnpm?"),
    ("mining", ["--points", "0"], "points: must be between 1 and"),
    ("mining", ["--points", "3"], "points: 3 are more than the 2 epochs"),
    ("mining", ["--epochs", "0"], "epochs: must be between 1 and"),
    ("mining", ["--seeds", "0"], "seeds: must be between 1 and"),
    ("mining", ["--encoder", "resnet11"], "encoder: there is no 'resnet11'"),
    ("mining", ["--batch-size", "301"], "batch_size: 301 is more than the 300 images"),
    ("mining", ["--on", "train"], "--on"),
    ("mining", ["--epoch", "3"], "--epoch: there is no such option"),
]


@pytest.mark.parametrize(
    ("verb", "changes", "said"),
    [
        *(("compare", changes, said) for changes, said in COMPARE_MISTAKES),
        *((f"ablate {which}", changes, said) for which, changes, said in ABLATE_MISTAKES),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_begun(photos, tmp_path, monkeypatch, capsys, verb, changes, said):
    name, *which = verb.split()
    words = {"compare": compare_words, "ablate": ablate_words}[name](*which, photos, tmp_path / "out", *changes)
    monkeypatch.setattr("sys.argv", ["hardpair", name, *words])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    errors = capsys.readouterr().err
    assert stop.value.code == 2
    assert said in errors
    assert len(errors.strip().splitlines()) == 1, errors
    assert list(tmp_path.iterdir()) == []


def test_images_without_labels_are_refused_before_any_training(tmp_path):
    flat, out = tmp_path / "flat", tmp_path / "out"
    flat.mkdir()
    for number in range(9):
        Image.new("RGB", (16, 16), (20 * number, 0, 0)).save(flat / f"{number}.png")
    with pytest.raises(UserError, match=r"test split|no labels"):
        compare(compare_words(flat, out))
    for verb, words in ((compare, compare_words(flat, out)), (ablate, ablate_words("tau", flat, out))):
        with pytest.raises(UserError, match="no labels to evaluate"):
            verb([*words, "--on", "validation"])
    assert not out.exists()


@pytest.mark.parametrize(("sweep", "stem"), [("compared", "figure"), ("ablated", "mining")])
def test_the_figure_is_a_picture(request, sweep, stem):
    folder = request.getfixturevalue(sweep)
    with Image.open(folder / f"{stem}.png") as image:
        assert image.format == "PNG"
        width, height = image.size
        pixels = np.asarray(image.convert("RGB"))
    assert 1200 < width < 3000
    assert 500 < height < 1500
    for colour in ((0xC1, 0x27, 0x2D), (0x00, 0x77, 0xBB)):  # of the first variant and the second
        assert (pixels == colour).all(axis=2).sum() > {"compared": 50, "ablated": 500}[sweep]
    assert ElementTree.parse(folder / f"{stem}.svg").getroot().tag.endswith("svg")


@pytest.mark.parametrize(
    ("verb", "parts"),
    [
        ("compare", ("--unit", "forwards", "Ctrl-C", "hardpair compare --methods all", "runs/compare")),
        ("ablate", ("tau", "mining", "gradient", "--points", "Ctrl-C", "Table 7", "runs/ablate")),
    ],
)
def test_help_teaches(capsys, verb, parts):
    with pytest.raises(SystemExit):
        cli.run_verb([verb, "--help"])
    said = capsys.readouterr().out
    assert [part for part in parts if part not in said] == []
    assert f"hardpair {verb}" in cli.usage()
