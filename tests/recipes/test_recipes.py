"""Recipes are checked, hashed, and read back."""

import dataclasses
import json
import re
from pathlib import Path

import pytest
import torch

from hardpair import METHODS, build_encoder
from hardpair.cli.pretrain import Pretrain
from hardpair.cli.recipe_arguments import parse_recipe
from hardpair.data import Images
from hardpair.errors import UserError
from hardpair.recipes import FAMILIES, RECIPES, SUPERVISED, Recipe, describe_recipe, find_recipe, list_recipes
from hardpair.recipes.imagenet import LARGE_ENCODERS
from hardpair.train.step import build_method

ROOT = Path(__file__).parents[2]
SCALE = ROOT / "docs/explanation/scale.md"


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
def test_every_recipe_says_its_command_its_cost_and_its_score(name):
    words = describe_recipe(name)
    command = re.search(r"^Command:  (.+)$", words, re.MULTILINE).group(1)
    assert command.split()[:3] == ["hardpair", "pretrain", name] or (name, command) == (
        "demo/hnpm",
        "hardpair pretrain",
    )
    assert re.search(r"^Cost: +\S", words, re.MULTILINE)
    assert re.search(r"^Score: +\S", words, re.MULTILINE)


def test_the_list_has_columns_and_a_score_with_seeds_and_date_or_none():
    lines = list_recipes()
    assert [line.split()[0] for line in lines[1:]] == list(RECIPES)
    score = lines[0].index("measured score")
    for line in lines[1:]:
        assert line[score - 2 : score] == "  "
        assert re.match(r"linear \d.*\(\d seeds?, 20\d\d-\d\d-\d\d\)$|not run ", line[score:]), line


def test_scores_of_the_demo_are_those_in_the_results():
    """And they were measured with the settings that the recipes have now."""
    results = json.loads((ROOT / "results/compare-cifar10.json").read_text())
    for row in results["rows"]:
        recipe = dataclasses.replace(find_recipe(f"demo/{row['method']}"), data="cifar10:10000", epochs=row["epochs"])
        for seed in row["seeds"]:
            assert dataclasses.replace(recipe, seed=seed["seed"]).to_json()["hash"] == seed["recipe_hash"]
        if row["method"] != "hnpm":  # which has a score on the demo's own photos
            linear, knn = (f"{row[name]['mean']:.1f} ± {row[name]['std']:.1f}" for name in ("linear", "knn"))
            words = f"linear {linear}, kNN {knn} on cifar10:10000, {row['epochs']} epochs (3 seeds, {results['date']})"
            assert words in describe_recipe(f"demo/{row['method']}")


def test_days_are_those_of_the_table_of_plans():
    table = re.findall(
        r"^\| `(imagenet/\S+)` \|.*\| ([\d.]+) \| (yes|on \d+ GPUs) \|$", SCALE.read_text(), re.MULTILINE
    )
    assert {name for name, *_ in table} == {name for name in RECIPES if name.startswith("imagenet/")}
    for name, days, fits in table:
        gpus = re.search(r"\d+", fits)
        batch = f", though the batch needs {gpus.group()}" if gpus else ""
        assert f"an estimated {days} days on eight A100{batch}." in describe_recipe(name), name


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


@pytest.mark.parametrize("large", LARGE_ENCODERS, ids=lambda large: large.name)
def test_encoders_of_the_papers_tables_have_their_published_size(large):
    recipe = find_recipe(large.name)
    with torch.device("meta"):
        encoder = build_encoder(
            recipe.encoder, width=recipe.width, sk=recipe.sk, colour_streams=large.streams == 2, small_images=False
        )
    assert sum(p.numel() for p in encoder.parameters()) / 1e6 == pytest.approx(large.parameters, abs=0.6)
    assert dataclasses.replace(recipe, name="", encoder="", width=1.0, sk=False) == dataclasses.replace(
        find_recipe(f"imagenet/{large.method}"), name="", encoder=""
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
        ({"optimiser": "adm"}, "optimiser: must be one of adam, adamw, sgd, lars"),
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
