"""A method in a file of the user's own: trained, resumed, evaluated, compared, and refused in one line."""

import json

import pytest
from noise_photos import write_photos

from hardpair import METHODS
from hardpair.cli import run_verb
from hardpair.errors import UserError
from hardpair.methods import resolve_method
from hardpair.recipes import find_recipe

SOURCE = '''
from __future__ import annotations

import torch
from torch import nn

from hardpair.methods import Method
from hardpair.views import two_views


class Twins(Method):
    """Two views of an image are to have the same standardised outputs.

    Args:
        encoder: any.
        head_outputs: width of the head.
        view: augmentation.
    """

    def __init__(self, encoder, *, head_outputs: int = 8, view: str = "crop") -> None:
        super().__init__()
        self.encoder, self.view = encoder, view
        self.head = nn.Linear(encoder.num_features, head_outputs)

    def views(self, images, draw):
        return two_views(images, self.view, self.view, draw)

    def forward(self, views):
        features = [self.encoder(view) for view in views]
        a, b = (nn.functional.layer_norm(self.head(x), [self.head.out_features]) for x in features)
        correlation = a.T @ b / len(a)
        loss = (correlation - torch.eye(len(correlation))).square().mean()
        return {"loss": loss, "features": features[0].detach()}


class simclr(Twins):
    pass


class Bare(Twins):
    def forward(self, views):
        return {"loss": super().forward(views)["loss"]}


class Half(Method):
    def views(self, images, draw):
        return [images]


class Odd(Twins):
    def __init__(self, encoder, *, width: tuple = (1, 2)) -> None:
        super().__init__(encoder)
'''


@pytest.fixture
def file(tmp_path):
    before = dict(METHODS)
    (tmp_path / "mine.py").write_text(SOURCE)
    yield tmp_path / "mine.py"
    METHODS.clear()
    METHODS.update(before)


def test_trained_resumed_evaluated_and_reported(file, tmp_path, capsys):
    small = ["--data", "sample:100", "--image-size", "8", "--width", ".0625", "--batch-size", "20", "--epochs", "2"]
    words = ["pretrain", "--method", f"{file}:Twins", "--head-outputs", "4", *small, "--run", str(tmp_path / "run")]
    assert run_verb(words) == 0
    assert "Twins on 100 images" in capsys.readouterr().out
    recipe = json.loads((tmp_path / "run/recipe.json").read_text())
    assert (recipe["method"], recipe["settings"]) == ("Twins", {"head_outputs": 4, "view": "crop"})
    assert run_verb([*words, "--resume"]) == 0
    METHODS.pop("Twins")  # an evaluator is handed an encoder; it never runs the file
    assert run_verb(["evaluate", str(tmp_path / "run"), "--protocol", "knn"]) == 0
    assert run_verb(["report", str(tmp_path / "run")]) == 0


def test_compared_with_others(file, tmp_path, monkeypatch):
    monkeypatch.setattr("hardpair.sweep.compare.draw_comparison", lambda *_: {})
    small = ["--width", ".0625", "--image-size", "8", "--batch-size", "50", "--budget", "1", "--seeds", "1"]
    photos = write_photos(tmp_path / "photos")
    words = [
        "compare",
        "--methods",
        f"{file}:Twins,simclr",
        "--data",
        str(photos),
        *small,
        "--out",
        str(tmp_path / "out"),
    ]
    assert run_verb(words) == 0
    assert "| Twins |" in (tmp_path / "out/table.md").read_text()
    assert (tmp_path / "out/Twins-b1-s0/encoder.safetensors").exists()


@pytest.mark.parametrize("family", ["demo", "cifar10", "imagenet"])
def test_a_method_without_a_recipe_has_the_conditions_of_the_family(file, family):
    name = resolve_method(f"{file}:Twins")
    recipe, known = find_recipe(f"{family}/{name}"), find_recipe(f"{family}/hnpm")
    assert (recipe.method, recipe.data, recipe.encoder) == (name, known.data, known.encoder)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mine.py:Nobody", "has no class 'Nobody'"),
        ("mine.py:Half", "does not define forward"),
        ("mine.py:Odd", "the setting width needs"),
        ("mine.py:simclr", "is the name of a method of hardpair"),
        ("yours.py:Twins", "no such file"),
        ("broken.py:Twins", "cannot be imported (SyntaxError"),
    ],
)
def test_what_is_no_method_is_refused_in_one_line(file, name, said):
    (file.parent / "broken.py").write_text("def (")
    with pytest.raises(UserError) as refused:
        resolve_method(str(file.parent / name))
    assert said in str(refused.value)


def test_a_run_that_names_a_file_does_not_run_it(file, tmp_path):
    """Only what the user types is loaded."""
    marker = tmp_path / "ran"
    file.write_text(f"open({str(marker)!r}, 'w')")
    run = tmp_path / "run"
    run.mkdir()
    (run / "recipe.json").write_text(json.dumps({"name": "x", "method": f"{file}:Twins"}))
    with pytest.raises(UserError, match="there is no"):
        run_verb(["pretrain", "--run", str(run), "--resume"])
    assert not marker.exists()


def test_what_forward_must_return(file, tmp_path):
    words = ["--data", "sample:200", "--image-size", "8", "--width", ".0625", "--batch-size", "50"]
    with pytest.raises(UserError, match=r"Bare: .*features"):
        run_verb(["pretrain", "--method", f"{file}:Bare", *words, "--run", str(tmp_path / "run")])
