"""The recipe for somebody's own photos: what it chooses from photos, machine and time, and what it leaves alone."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from noise_photos import write_photos
from PIL import Image

import hardpair
from hardpair.cli import run_verb
from hardpair.data import shorter_side
from hardpair.errors import UserError
from hardpair.recipes import find_recipe, with_encoder
from hardpair.train import own_photos
from hardpair.train.own_photos import LADDER, choose_recipe

PHOTOS = dataclasses.replace(find_recipe("photos"), data="sample", precision="float32")


ROUND = [rung for rung in LADDER if rung.image_size != 32 or rung.needs == 0]  # of photos of 1,000 px


def place_of(recipe):
    shape = (recipe.image_size, recipe.view_size, recipe.encoder, recipe.width)
    return [dataclasses.astuple(rung)[:4] for rung in ROUND].index(shape)


def cost(recipe):
    """A machine on which a step takes as long as its rung is high: the same on every computer."""
    return 1e-3 * 2.0 ** place_of(recipe)


@pytest.fixture
def machine(monkeypatch):
    """Photos of 1,000 px, and steps that take a known time."""
    monkeypatch.setattr(own_photos, "shorter_side", lambda _: 1000)
    monkeypatch.setattr(own_photos, "seconds_per_image", lambda recipe, *_: {"float32": cost(recipe)})


def chosen(given=(), hours=1.0, **fields):
    return choose_recipe(dataclasses.replace(PHOTOS, **fields), given, hours=hours, device="cpu").recipe


def test_more_time_never_gives_a_lower_rung_nor_fewer_images_than_it_needs(machine):
    hours = [0.002, 0.01, 0.05, 0.2, 1, 5, 25, 125, 1000]
    recipes = [chosen(hours=h) for h in hours]
    places = [place_of(recipe) for recipe in recipes]
    assert places == sorted(places)
    assert places[0] == 0
    assert places[-1] == len(ROUND) - 1
    for h, recipe, place in zip(hours, recipes, places, strict=True):
        assert cost(recipe) * 5000 * recipe.epochs <= 3600 * h
        assert cost(recipe) * 5000 * (recipe.epochs + 1) > 0.9 * 3600 * h or recipe.epochs == 1000
        assert 0.95 * 3600 * h / cost(recipe) >= ROUND[place].needs


@pytest.mark.parametrize("side", [20, 32, 40, 64, 100, 224])
def test_photos_are_not_enlarged(machine, monkeypatch, side):
    monkeypatch.setattr(own_photos, "shorter_side", lambda _: side)
    monkeypatch.setattr(own_photos, "seconds_per_image", lambda *_: {"float32": 1e-5})
    largest = max(rung.image_size for rung in LADDER if rung.image_size <= max(32, 1.15 * side))
    assert chosen(hours=10_000).image_size == largest


def test_what_was_given_is_kept(machine, monkeypatch):
    monkeypatch.setattr(own_photos, "seconds_per_image", lambda *_: {"float32": 1e-3})
    assert chosen({"epochs"}, epochs=7).epochs == 7
    assert place_of(chosen({"epochs"}, epochs=1)) < place_of(chosen({"epochs"}, epochs=600))
    assert chosen({"image_size"}, image_size=56).image_size == 56
    assert chosen({"width"}, width=0.125, hours=100).width == 0.125
    assert chosen({"batch_size"}, batch_size=32).batch_size == 32
    assert chosen({"batch_size"}, batch_size=32).learning_rate == pytest.approx(PHOTOS.learning_rate / 5)
    assert chosen({"batch_size", "learning_rate"}, batch_size=32, learning_rate=0.1).learning_rate == 0.1


def test_an_encoder_of_timm_is_trained_as_such_are(machine, monkeypatch):
    monkeypatch.setattr(own_photos, "seconds_per_image", lambda *_: {"float32": 1e-3})
    vit = dataclasses.asdict(with_encoder(PHOTOS, "vit_tiny_patch16_224"))
    assert chosen({"image_size"}, image_size=48).small_images
    assert not chosen({"image_size"}, image_size=128).small_images
    recipe = chosen({"encoder"}, **{name: vit[name] for name in ("encoder", "width", "small_images")})
    assert (recipe.encoder, recipe.optimiser, recipe.view_pixels % 16) == ("vit_tiny_patch16_224", "adamw", 0)
    assert recipe.weight_decay > 0
    assert chosen({"encoder", "optimiser"}, encoder="convnext_atto", width=1.0, small_images=False).optimiser == "adam"


@given(images=st.integers(10, 3000))
def test_a_batch_leaves_an_epoch_some_steps(images):
    recipe = own_photos._with_batch(PHOTOS, (), images)
    assert 2 <= recipe.batch_size <= 160
    assert images // recipe.batch_size >= min(8, images // 2)
    assert recipe.learning_rate / recipe.batch_size == pytest.approx(PHOTOS.learning_rate / 160)


def test_too_little_time_says_how_much_an_epoch_takes(machine):
    with pytest.raises(UserError, match=r"hours: .* 5,000 images take 5 s .* give --hours 0\.0015"):
        chosen(hours=0.001)


def test_the_median_of_the_shorter_sides(tmp_path):
    sizes = [(20, 50), (60, 30), (40, 90), (10, 200), (300, 80)]
    for number, (width, height) in enumerate(sizes):
        Image.fromarray(np.zeros((height, width, 3), np.uint8)).save(tmp_path / f"{number}.png")
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8 no picture")
    assert shorter_side(str(tmp_path)) == 30
    assert shorter_side("sample:100") == shorter_side("cifar10") == 32


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """300 images of 8 px, on a machine that gets through them in 3.4 of the 3.6 seconds below, twice."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(own_photos, "seconds_per_image", lambda *_: {"float32": 1.6 / 300})
    return write_photos(tmp_path / "coins")


def test_a_run_holds_plain_values_and_goes_on_with_them(photos, capsys):
    assert run_verb(["pretrain", "--data", str(photos), "--hours", ".001", "--image-size", "16"]) == 0
    said = capsys.readouterr().out
    recipe = json.loads((photos.parent / "runs/coins/recipe.json").read_text())
    assert recipe["precision"] in ("float32", "bfloat16")
    assert (recipe["image_size"], recipe["epochs"]) == (16, 2)
    assert f"batch: {recipe['batch_size']} images" in said
    reasons = [line for line in said.splitlines() if line.split(":")[0] in ("photos", "machine", "encoder", "length")]
    assert len(reasons) == 4
    assert "300, 2 classes" in reasons[0]
    more = str(recipe["epochs"] + 1)
    again = ["pretrain", "--data", str(photos), "--hours", ".001", "--image-size", "16", "--resume", "--epochs", more]
    assert run_verb(again) == 0
    lengthened = json.loads((photos.parent / "runs/coins/recipe.json").read_text())
    assert lengthened["lengthened"][0]["from_epochs"] == recipe["epochs"]
    changed = {name for name in recipe if recipe[name] != lengthened[name]}
    assert changed == {"epochs", "hash"}


def test_the_same_from_python(photos):
    run = hardpair.pretrain(photos, hours=0.001, image_size=16, threads=1)
    assert run.finished
    assert run.folder.name == "coins"


def test_a_run_that_is_there_is_refused_before_anything_is_timed(photos, monkeypatch):
    monkeypatch.setattr(own_photos, "seconds_per_image", None)
    (photos.parent / "runs/coins/checkpoints").mkdir(parents=True)
    with pytest.raises(UserError, match="already exists"):
        run_verb(["pretrain", "--data", str(photos)])


def test_hours_with_a_recipe_of_ones_own(photos):
    with pytest.raises(UserError, match="hours: "):
        run_verb(["pretrain", "demo/simclr", "--hours", "1"])
