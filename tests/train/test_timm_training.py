"""Training encoders of timm: stochastic depth resumes exactly, sizes that do not fit are refused before any work."""

import dataclasses
import json

import pytest
import shared_steps
import torch
from safetensors.torch import load_file
from shared_compiling import as_it_is
from shared_steps import photos, record
from together import together
from torch import nn

from hardpair import build_encoder, load_encoder
from hardpair.errors import UserError
from hardpair.recipes import find_recipe, with_encoder
from hardpair.train import compiled, pretrain
from hardpair.train.compiled import compile_if_wanted
from hardpair.train.optimisers import build_optimiser
from hardpair.train.run_folder import Log
from hardpair.train.step import Stepper

CPU = torch.device("cpu")


@pytest.fixture(scope="session")
def vit_recipe(small_recipe):
    fields = {"encoder": "test_vit", "width": 1.0, "small_images": False, "image_size": 32, "data": "sample:120"}
    return dataclasses.replace(small_recipe, **fields, batch_size=20, epochs=1, optimiser="adamw", weight_decay=0.1)


@pytest.mark.parametrize("encoder", ["test_vit", "test_convnext"])
def test_stochastic_depth_resumes_exactly(vit_recipe, tmp_path, encoder):
    recipe = dataclasses.replace(vit_recipe, encoder=encoder, drop_path=0.4)
    pretrain(recipe, tmp_path / "whole")
    for until in (1, 4, None):
        pretrain(recipe, tmp_path / "parts", resume=True, until=until)
    for file in ("encoder.safetensors", "checkpoints/000000006/state.safetensors", "pairs.json"):
        assert (tmp_path / "whole" / file).read_bytes() == (tmp_path / "parts" / file).read_bytes(), file
    pretrain(dataclasses.replace(recipe, drop_path=0.0), tmp_path / "all")
    assert (tmp_path / "all/encoder.safetensors").read_bytes() != (tmp_path / "whole/encoder.safetensors").read_bytes()
    assert load_encoder(tmp_path / "whole").settings == {"name": encoder, "image_size": 32}
    with pytest.raises(UserError, match=r"drop_path was 0\.4 and is now 0\.1"):
        pretrain(dataclasses.replace(recipe, drop_path=0.1), tmp_path / "whole", resume=True)


def test_every_step_drops_other_paths(vit_recipe):
    stepper, drawn = Stepper(dataclasses.replace(vit_recipe, drop_path=0.4), photos(), CPU), []
    for step in (0, 1, 0):
        stepper.seed_layers(step)
        drawn.append(torch.rand(4))
    assert torch.equal(drawn[0], drawn[2])
    assert not torch.equal(drawn[0], drawn[1])
    other = Stepper(dataclasses.replace(vit_recipe, seed=1), photos(), CPU)
    other.seed_layers(0)
    assert not torch.equal(torch.rand(4), drawn[0])


@pytest.mark.parametrize("rank", [0, 1, 1023])
def test_every_rank_drops_other_paths(vit_recipe, monkeypatch, rank):
    stepper = Stepper(dataclasses.replace(vit_recipe, seed=2**31 - 1), photos(), CPU)
    monkeypatch.setattr("hardpair.distributed.rank", lambda: rank)
    stepper.seed_layers(100_000)
    monkeypatch.setattr("hardpair.distributed.rank", lambda: rank + 1)
    here = torch.rand(4)
    stepper.seed_layers(100_000)
    assert not torch.equal(torch.rand(4), here)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"image_size": 40}, "cannot take views of 40 px; sizes near it that work: 32 px and 48 px"),
        ({"image_size": 64, "view_size": 0.8}, "cannot take views of 51 px"),
        ({"method": "infomin", "settings": {"queue": 60}}, "cannot take views of 8 px"),
        ({"encoder": "test_convnext", "image_size": 24}, "test_convnext cannot take views of 24 px"),
        ({"method": "cmc", "settings": {}}, "cannot use test_vit; try resnet18"),
        ({"method": "cpc", "settings": {}}, "cannot use test_vit; try resnet18"),
        ({"encoder": "test_vitt"}, "did you mean test_vit"),
        ({"encoder": "hf-hub:timm/test_vit"}, "there is no"),
        ({"width": 0.5}, "are for ResNets"),
        ({"encoder": "vgg11", "drop_path": 0.1}, "no stochastic depth"),
    ],
)
def test_what_cannot_work_is_refused_before_any_work(vit_recipe, tmp_path, changes, words):
    with pytest.raises(UserError, match=words):
        pretrain(dataclasses.replace(vit_recipe, **changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_small_views_are_of_whole_patches(vit_recipe, tmp_path):
    settings = {**vit_recipe.settings, "small_views": 1}
    recipe = dataclasses.replace(vit_recipe, image_size=48, settings=settings)
    assert pretrain(recipe, tmp_path / "run", until=1).step == 1
    assert load_encoder(tmp_path / "run").settings["image_size"] == 48


def test_a_recipe_takes_any_encoder_of_timm():
    recipe = with_encoder(find_recipe("demo"), "test_vit")
    assert (recipe.encoder, recipe.width, recipe.sk, recipe.small_images) == ("test_vit", 1.0, False, False)
    again = with_encoder(find_recipe("demo"), "resnet14")
    assert again == dataclasses.replace(find_recipe("demo"), encoder="resnet14")


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "lars"])
def test_decay_spares_what_timm_names(vit_recipe, name):
    encoder = build_encoder("test_vit", image_size=32)
    module = nn.ModuleDict({"deep": nn.ModuleDict({"encoder": encoder}), "head": nn.Linear(3, 3)})
    optimiser = build_optimiser(module, dataclasses.replace(vit_recipe, optimiser=name))
    decayed, spared = optimiser.param_groups
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.1, 0)
    names = {parameter: key for key, parameter in encoder.trunk.named_parameters()}
    assert {"pos_embed", "cls_token"} <= {names.get(parameter) for parameter in spared["params"]}
    assert all(parameter.ndim >= 2 for parameter in decayed["params"])
    assert not {"pos_embed", "cls_token"} & {names.get(parameter) for parameter in decayed["params"]}
    assert len(decayed["params"]) + len(spared["params"]) == len(list(module.parameters()))


def test_adamw_decays_apart_from_the_gradient(vit_recipe):
    """As its paper says: with a gradient of zero, weights shrink by rate times decay."""
    module = nn.Linear(3, 3)
    before = module.weight.detach().clone()
    optimiser = build_optimiser(module, dataclasses.replace(vit_recipe, learning_rate=0.5))
    for parameter in module.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimiser.step()
    torch.testing.assert_close(module.weight.detach(), before * (1 - 0.5 * 0.1))


@pytest.mark.parametrize("changes", [{"drop_path": 0.5}, {"precision": "bfloat16"}], ids=str)
def test_compiled_code_is_checked_with_the_same_random_numbers(vit_recipe, tmp_path, monkeypatch, changes):
    calls = []
    monkeypatch.setattr(compiled, "BACKEND", as_it_is(calls))
    settings = {"head_hidden": 32}
    recipe = dataclasses.replace(vit_recipe, **changes, method="simclr", settings=settings)
    stepper = Stepper(recipe, photos(), CPU)
    before = {name: value.clone() for name, value in stepper.method.state_dict().items()}
    assert compile_if_wanted(stepper, Log(tmp_path / "log.jsonl"), 0, wanted=True).startswith("compiled")
    assert stepper.method.state_dict().keys() == before.keys()
    assert calls


VITS = ("simclr, vit", "hnpm, vit", "moco, vit", "simclr, convnext")


@pytest.mark.slow
@pytest.mark.parametrize("shard", [False, True])
def test_two_processes_are_one(tmp_path, shard):
    together(2, shared_steps.main, tmp_path, "double", VITS, shard)
    for case in VITS:
        theirs, ours = load_file(tmp_path / f"{case}.safetensors"), record(case, torch.float64)
        assert theirs.keys() == ours.keys()
        for name, value in ours.items():
            far = float((theirs[name].double() - value.double()).abs().max())
            assert far <= (1e-12 if name.startswith(("gradient/", "mean/")) else 1e-7), f"{case}: {name}"


def test_a_run_says_where_its_encoder_is_from(vit_recipe, tmp_path):
    pretrain(vit_recipe, tmp_path / "run", until=1)
    assert "init" not in json.loads((tmp_path / "run/log.jsonl").read_text().splitlines()[0])
