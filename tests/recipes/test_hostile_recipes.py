"""A recipe from a stranger's run folder: plain values of the right kind, or one line that names the field."""

import json
from pathlib import Path

import pytest
import torch
from hostile import DEEP, STEEP, within

from hardpair.data import open_images
from hardpair.errors import UserError
from hardpair.evaluate import evaluate_run
from hardpair.files import read_json
from hardpair.models import build_encoder, save_encoder
from hardpair.recipes import Recipe, find_recipe

NESTED: object = "x"
for _ in range(500):
    NESTED = {"__class__": NESTED}

STRANGE = [
    ({"epochs": 10**400}, "epochs: .* too large"),
    ({"epochs": -(10**400)}, "epochs: .* too large"),
    ({"epochs": 1e400}, "epochs: must be a whole number, not inf"),
    ({"epochs": "100"}, "epochs: must be a whole number, not '100'"),
    ({"epochs": None}, "epochs: must be a whole number, not None"),
    ({"epochs": [100]}, r"epochs: must be a whole number, not \[100\]"),
    ({"epochs": NESTED}, "epochs: must be a whole number, not {'__class__'"),
    ({"learning_rate": "NaN"}, "learning_rate: must be a number, not 'NaN'"),
    ({"learning_rate": float("nan")}, "learning_rate: must be a number, not nan"),
    ({"learning_rate": float("inf")}, "learning_rate: must be between 0 and 1000, not inf"),
    ({"learning_rate": 10**400}, "learning_rate: .* too large"),
    ({"width": 10**400}, "width: .* too large"),
    ({"seed": 2**63}, "seed: .* too large"),
    ({"optimiser": NESTED}, "optimiser: must be one of adam, adamw, sgd, lars, not {"),
    ({"optimiser": "__import__('os').system('touch x')"}, "optimiser: must be one of"),
    ({"method": "x" * 100_000}, "method: there is no 'xxxxxxxxxxxx...xxxxxxxxxxxxx'"),
    ({"method": "os.system"}, "method: there is no 'os.system'"),
    ({"method": "__class__"}, "method: there is no '__class__'"),
    ({"data": 7}, "data: must be text, not 7"),
    ({"__class__": "os.system"}, "recipe: unknown field '__class__'"),
    ({"__init__": {}}, "recipe: unknown field '__init__'"),
    ({"_target_": "os.system", "args": ["touch x"]}, "recipe: unknown field"),
    ({"x" * 100_000: 1}, "recipe: unknown field 'xxxxxxxxxxxx...xxxxxxxxxxxxx'"),
    ({"\x1b[31m\n": 1}, "recipe: unknown field"),
    ({"settings": "tau"}, "settings must be a JSON object"),
    ({"settings": {"__globals__": 1}}, "'__globals__': the method hnpm has no such setting"),
    ({"settings": {"x" * 100_000: 1}}, "the method hnpm has no such setting"),
    ({"settings": {"tau": NESTED}}, "tau: must be a number, not {"),
    ({"settings": {"tau": 10**400}}, "tau: .* too large"),
    ({"settings": {"head_hidden": 2**40}}, "head_hidden: .* too large"),
    ({"settings": {"mine": "true"}}, "mine: must be true or false, not 'true'"),
]


@pytest.mark.parametrize(("changes", "words"), STRANGE)
def test_strange_values_are_one_short_line(changes: dict[str, object], words: str) -> None:
    with within(5), pytest.raises(UserError, match=words) as caught:
        Recipe.from_json({**find_recipe("demo").to_json(), **changes})
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stranger's run: an encoder, and a recipe that each test writes."""
    folder = tmp_path_factory.mktemp("run")
    save_encoder(build_encoder("resnet10", width=1 / 16, small_images=True), folder, step=3)
    return folder


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (DEEP, "nested too deeply"),
        (STEEP, "nested too deeply"),
        ('{"name": "x"' + " " * 10_000_000 + "}", "10,000,013 bytes, over 1,000,000"),
        ("null", "TypeError"),
        ("[]", "TypeError"),
        ('"recipe"', "TypeError"),
        ("{}", "KeyError"),
        ("NaN", "TypeError"),
        ({"seed": 1e400}, "seed: must be a whole number, not inf"),
        ({"seed": 2**70}, "seed: .* is too large"),
        ({"seed": "0"}, "seed: must be a whole number, not '0'"),
        ({"image_size": 10**9}, "image_size: must be between 8 and 1024"),
        ({"image_size": True}, "image_size: must be a whole number, not True"),
        ({"data": {"__class__": "open"}}, "data: must be text, not {'__class__': 'open'}"),
        ({"name": ["x"]}, "name: must be text"),
    ],
)
def test_evaluation_refuses_it_by_file_and_field(run: Path, tmp_path: Path, content: object, words: str) -> None:
    whole = {**find_recipe("demo").to_json(), **content} if isinstance(content, dict) else content
    (run / "recipe.json").write_text(whole if isinstance(whole, str) else json.dumps(whole))
    with within(5), pytest.raises(UserError, match=words) as caught:
        evaluate_run(run, ["knn"], data_root=tmp_path, device=torch.device("cpu"), say=print)
    assert str(caught.value).startswith(str(run / "recipe.json"))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


ODD_DATA = {
    "a\0b": "is unknown",
    "/a\0b": "is unknown",
    "~nobody-of-this-name/x": "cannot be the path of a folder",
    "/" + "x" * 5000: "File name too long",
    "/x/" * 3000: "File name too long",
    "x" * 100_000: "is unknown",
    "\x1b[31m\n": "is unknown",
    "http://127.0.0.1/x": "no such folder",
    "file:///etc": "no such folder",
    "$(touch x)/": "no such folder",
    "/dev/null": "is a file",
    "/dev/zero": "is a file",
    "sample:" + "9" * 5000: "is not a number of images",
    "cifar10/../..": "no such folder",
}


@pytest.mark.parametrize("data", ODD_DATA, ids=range(len(ODD_DATA)))
def test_data_may_be_any_text(data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with within(5), pytest.raises(UserError, match=ODD_DATA[data]) as caught:
        open_images(data, "train", size=8, root=tmp_path)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300
    assert list(tmp_path.iterdir()) == []


def test_a_recipe_may_be_read_back(tmp_path: Path) -> None:
    (tmp_path / "recipe.json").write_text(json.dumps(find_recipe("demo").to_json()))
    assert Recipe.from_json(read_json(tmp_path / "recipe.json")).to_json() == find_recipe("demo").to_json()
