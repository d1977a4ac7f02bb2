"""Recipes are checked, hashed, and read back."""

import dataclasses
import json
import re

import pytest
import torch

from hardpair import METHODS, build_encoder
from hardpair.cli.pretrain import Pretrain
from hardpair.cli.recipe_arguments import parse_recipe
from hardpair.data import Images
from hardpair.errors import UserError
from hardpair.recipes import FAMILIES, RECIPES, SUPERVISED, Recipe, describe_recipe, find_recipe
from hardpair.recipes.encoder_rows import ROWS
from hardpair.train.step import build_method


def noise(size: int) -> Images:
    pixels = torch.randint(256, (20, 3, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    return Images(pixels, torch.arange(20) % 2, ("even", "odd"), "noise")


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_builds_and_survives_json(name):
    recipe = find_recipe(name)
    assert recipe.name == name
    small = dataclasses.replace(recipe, width=1 / 8, encoder="resnet14" if recipe.sk else "resnet10")
    build_method(small, noise(recipe.image_size))
    again = Recipe.from_json(json.loads(json.dumps(recipe.to_json())))
    assert again.to_json() == recipe.to_json()


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_says_its_command_its_cost_and_what_to_expect(name):
    words = describe_recipe(name)
    command = re.search(r"^Command:  (.+)$", words, re.MULTILINE).group(1)
    assert command.split()[:3] == ["hardpair", "pretrain", name] or (name, command) == (
        "demo/hnpm",
        "hardpair pretrain",
    )
    assert re.search(r"^Cost: +\S", words, re.MULTILINE)
    assert re.search(r"^Expected: +\S", words, re.MULTILINE)


def test_infomin_names_what_it_does_not_take_from_moco():
    own, taken = (find_recipe(f"cifar10/{method}").to_json()["settings"] for method in ("infomin", "moco"))
    others = {name for name in own if own[name] != taken.get(name)}
    assert others == {"view", "temperature", "jigsaw"}
    assert all(name in describe_recipe("cifar10/infomin").splitlines()[0] for name in others)


@pytest.mark.parametrize("family", FAMILIES)
def test_families_have_every_method_and_the_supervised_baseline(family):
    plain = {name.split("/")[1] for name in RECIPES if name.startswith(f"{family}/") and "-" not in name}
    assert plain == {*METHODS, SUPERVISED}
    assert find_recipe(family) == find_recipe(f"{family}/hnpm")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_encoders_of_the_papers_tables_have_their_published_size(row):
    recipe = find_recipe(row.name)
    with torch.device("meta"):
        encoder = build_encoder(
            recipe.encoder, width=recipe.width, sk=recipe.sk, colour_streams=row.streams == 2, small_images=False
        )
    assert sum(p.numel() for p in encoder.parameters()) / 1e6 == pytest.approx(row.parameters, abs=0.6)
    assert dataclasses.replace(recipe, name="", encoder="", width=1.0, sk=False) == dataclasses.replace(
        find_recipe(f"imagenet/{row.method}"), name="", encoder=""
    )


def test_demo_recipes_differ_in_method_batch_and_rate_alone():
    shared = ("data", "image_size", "view_size", "encoder", "width", "small_images", "epochs", "seed")
    for method in [*METHODS, SUPERVISED]:
        for field in (*shared, "optimiser", "schedule", "clip"):
            assert getattr(find_recipe(f"demo/{method}"), field) == getattr(find_recipe("demo"), field), (method, field)


def test_paper_is_literal():
    recipe = find_recipe("paper")
    settings = recipe.to_json()["settings"]
    assert (recipe.encoder, recipe.width, recipe.data) == ("resnet10", 0.25, "sample")
    assert (recipe.optimiser, recipe.learning_rate, recipe.schedule, recipe.epochs) == ("adam", 0.1, "paper", 100)
    assert (recipe.batch_size, recipe.clip, recipe.weight_decay, recipe.warmup_epochs) == (160, 1.0, 0.0, 0.0)
    assert (settings["alpha_pos"], settings["alpha_neg"], settings["threshold"], settings["tau"]) == (
        0.8,
        0.1,
        1.0,
        0.5,
    )
    assert (settings["norm"], settings["head_outputs"]) == ("inf", 0)
    assert (settings["teacher_view"], settings["student_view"]) == ("paper", "plain")


def test_hash_follows_the_science_and_not_the_name():
    demo = find_recipe("demo")
    value = demo.to_json()["hash"]
    assert dataclasses.replace(demo, name="other").to_json()["hash"] == value
    assert dataclasses.replace(demo, seed=1).to_json()["hash"] != value
    assert dataclasses.replace(demo, clip=1).to_json()["hash"] == value
    explicit = dataclasses.replace(demo, settings=demo.to_json()["settings"])
    assert explicit.to_json()["hash"] == value


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epochs": 0}, "epochs: must be between 1 and"),
        ({"epochs": 2.5}, "epochs: must be a whole number, not 2.5"),
        ({"epochs": True}, "epochs: must be a whole number"),
        ({"learning_rate": float("nan")}, "learning_rate: must be a number"),
        ({"learning_rate": -1.0}, "learning_rate"),
        ({"batch_size": 1}, "batch_size"),
        ({"optimiser": "adm"}, "optimiser: must be one of adam, sgd, lars"),
        ({"method": "hnmp"}, "method: there is no 'hnmp'; did you mean hnpm"),
        ({"warmup_epochs": 100.0}, "warmup_epochs: 100 must be less than epochs"),
        ({"settings": {"taus": 1.0}}, "no such setting; did you mean tau"),
        ({"settings": {"tau": "half"}}, "tau: must be a number, not 'half'"),
        ({"settings": {"mine": 1}}, "mine: must be true or false"),
        ({"settings": {"norm": "l1"}}, "norm: must be one of inf, l2"),
    ],
)
def test_bad_values_are_one_line(changes, words):
    with pytest.raises(UserError, match=words) as caught:
        dataclasses.replace(find_recipe("demo"), **changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content", [[], {"nane": "x"}, {}, {"name": "x", "settings": []}, {"name": "x", "_target_": "os.system"}]
)
def test_strange_json_is_refused(content):
    with pytest.raises(UserError, match="recipe"):
        Recipe.from_json(content)


def test_unknown_recipe():
    with pytest.raises(UserError, match="did you mean demo"):
        find_recipe("dmeo")


@pytest.mark.parametrize(
    ("arguments", "name", "method"),
    [
        ([], "demo", "hnpm"),
        (["--method", "byol"], "demo/byol", "byol"),
        (["cifar10/simclr", "--method", "moco"], "cifar10/moco", "moco"),
        (["paper", "--method", "simclr"], "paper", "simclr"),
        (["cifar10"], "cifar10", "hnpm"),
    ],
)
def test_recipe_from_the_command_line(arguments, name, method):
    recipe, _ = parse_recipe(arguments, Pretrain, "pretrain", "")
    assert (recipe.name, recipe.method) == (name, method)
    if name in RECIPES and name != "paper":
        assert recipe.to_json() == find_recipe(name).to_json()
