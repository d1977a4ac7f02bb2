"""Any model of timm is an encoder: features as wide as it says, nothing random unless asked for, sizes that fit."""

import json
import re

import pytest
import timm
import torch
from timm.layers.drop import DropPath
from torch import nn

from hardpair import build_encoder, load_encoder
from hardpair.errors import UserError
from hardpair.models import save_encoder
from hardpair.models.timm_encoders import require_view_sizes

KINDS = {
    "test_vit": 32,
    "test_vit2": 32,
    "test_convnext": 32,
    "test_efficientnet": 32,
    "test_resnet": 32,
    "test_mambaout": 32,
    "test_byobnet": 32,
    "vit_tiny_patch16_224": 32,
    "convnext_atto": 32,
    "efficientnet_b0": 32,
    "mobilenetv3_small_100": 32,
    "swin_tiny_patch4_window7_224": 32,
}


@pytest.mark.parametrize("name", KINDS)
def test_features_are_as_wide_as_it_says(name):
    encoder = build_encoder(name, image_size=KINDS[name]).eval()
    features = encoder(torch.randn(2, 3, KINDS[name], KINDS[name]))
    assert features.shape == (2, encoder.num_features)
    assert features.isfinite().all()
    assert encoder.settings == {"name": name, "image_size": KINDS[name]}


@pytest.mark.parametrize("name", KINDS)
def test_nothing_is_random_unless_asked_for(name):
    encoder = build_encoder(name, image_size=32).train()
    images = torch.randn(4, 3, 32, 32)
    assert torch.equal(encoder(images), encoder(images))
    assert all(module.p == 0 for module in encoder.modules() if isinstance(module, nn.Dropout))
    assert not any(module.drop_prob for module in encoder.modules() if isinstance(module, DropPath))


@pytest.mark.parametrize("name", ["test_vit", "test_convnext", "efficientnet_b0", "swin_tiny_patch4_window7_224"])
def test_stochastic_depth_is_there_when_asked_for(name):
    encoder = build_encoder(name, image_size=32, drop_path=0.5)
    images = torch.randn(4, 3, 32, 32)
    assert not torch.equal(encoder.train()(images), encoder(images))
    assert torch.equal(encoder.eval()(images), encoder(images))
    assert encoder.settings == build_encoder(name, image_size=32).settings  # no part of what was learned
    assert all(module.p == 0 for module in encoder.modules() if isinstance(module, nn.Dropout))


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "vgg11", "densenet121"])
def test_models_without_stochastic_depth_refuse_it(name):
    with pytest.raises(UserError, match=r"^drop_path: .*stochastic depth; leave it out$"):
        build_encoder(name, drop_path=0.1)


def test_a_model_that_takes_the_rate_and_does_not_use_it(monkeypatch):
    real = timm.create_model

    def without_paths(*words, **options):
        options.pop("drop_path_rate", None)
        return real(*words, **options)

    monkeypatch.setattr(timm, "create_model", without_paths)
    with pytest.raises(UserError, match=r"^drop_path: test_vit has no"):
        build_encoder("test_vit", drop_path=0.1)


@pytest.mark.parametrize("name", ["test_vit", "test_convnext", "test_efficientnet"])
def test_saved_encoder_comes_back_whole(name, tmp_path):
    encoder = build_encoder(name, image_size=48, drop_path=0.2, mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4))
    encoder(torch.randn(4, 3, 48, 48))
    save_encoder(encoder, tmp_path, step=3)
    loaded = load_encoder(tmp_path)
    images = torch.randn(2, 3, 48, 48)
    assert torch.equal(loaded(images), encoder.eval()(images))
    assert loaded.settings == encoder.settings
    assert loaded.step == 3
    assert loaded.num_features == json.loads((tmp_path / "encoder.json").read_text())["num_features"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("vit_tinny_patch16_224", "did you mean vit_tiny_patch16_224"),
        ("resnet51", "did you mean resnet5"),
        ("zzz", "resnet10 to resnet200"),
        ("hf-hub:timm/test_vit", "there is no"),
        ("local-dir:/etc", "there is no"),
        ("timm/test_vit", "there is no"),
        ("../test_vit", "there is no"),
        ("/etc/passwd", "there is no"),
        ("", "there is no"),
        ("test_vit.nope", "did you mean test_vit"),
        ("test_vit.r160_in1k", "did you mean test_vit"),
        ("\x1b[31m\n", "there is no"),
    ],
)
def test_a_name_leads_to_no_file_and_no_download(name, words, tmp_path, monkeypatch):
    def opened(*_, **__):
        raise AssertionError("nothing may be loaded")

    save_encoder(build_encoder("test_vit", image_size=32), tmp_path, step=0)
    shape = json.loads((tmp_path / "encoder.json").read_text())
    (tmp_path / "encoder.json").write_text(json.dumps({**shape, "name": name}))
    monkeypatch.setattr("timm.models._hub.load_model_config_from_hf", opened)
    monkeypatch.setattr("timm.models._hub.hf_hub_download", opened)
    for attempt in (lambda: build_encoder(name), lambda: load_encoder(tmp_path)):
        with pytest.raises(UserError, match=words) as caught:
            attempt()
        assert str(caught.value).startswith("encoder: ")
        assert str(caught.value).isprintable()


THREE = [0.5, 0.5, 0.5]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mean": THREE}, "belong together"),
        ({"std": THREE}, "belong together"),
        ({"mean": ["a"] * 3, "std": THREE}, "'mean' cannot be"),
        ({"mean": [[0.5]] * 3, "std": THREE}, "'mean' cannot be"),
        ({"mean": [0.5], "std": THREE}, "'mean' cannot be"),
        ({"mean": [float("nan")] * 3, "std": THREE}, "'mean' cannot be"),
        ({"mean": [10**400] * 3, "std": THREE}, "'mean' cannot be"),
        ({"mean": THREE, "std": [0, 1, 1]}, "'std' cannot be"),
        ({"mean": THREE, "std": [-1, 1, 1]}, "'std' cannot be"),
        ({"mean": THREE, "std": [1e400, 1, 1]}, "'std' cannot be"),
        ({"mean": THREE, "std": THREE * 1000}, "'std' cannot be"),
        ({"image_size": "32"}, "'image_size' cannot be"),
        ({"image_size": True}, "'image_size' cannot be"),
        ({"image_size": -32}, "cannot be built"),
        ({"image_size": 10**30}, "tensors match"),
        ({"drop_path": 0.1}, "'drop_path' cannot be"),
        ({"pretrained": True}, "'pretrained' cannot be"),
        ({"width": 2}, "are for ResNets"),
        ({"patch": 8}, "ResNet of its own"),
        ({"name": "vit_gigantic_patch14_224"}, "tensors match"),
    ],
)
def test_strange_descriptions_are_refused(change, words, tmp_path):
    save_encoder(build_encoder("test_vit", image_size=32), tmp_path, step=0)
    shape = json.loads((tmp_path / "encoder.json").read_text())
    (tmp_path / "encoder.json").write_text(json.dumps({**shape, **change}))
    with pytest.raises(UserError, match=words) as caught:
        load_encoder(tmp_path)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("change", [{"width": 0.5}, {"sk": True}, {"small_images": True}])
def test_what_is_for_resnets_is_refused(change):
    with pytest.raises(UserError, match=r"^encoder: width, .* are for ResNets"):
        build_encoder("test_vit", **change)


@pytest.mark.parametrize(
    ("name", "built", "sizes", "refused", "working"),
    [
        ("test_vit", 32, {32, 16, 48}, None, ""),
        ("test_vit", 40, {40}, 40, "32 px and 48 px"),
        ("test_vit", 32, {32, 20}, 20, "16 px and 32 px"),
        ("test_vit", 8, {8}, 8, "that work: 16 px"),
        ("test_convnext", 32, {32, 33, 63}, None, ""),
        ("test_convnext", 16, {16}, 16, "that work: 32 px"),
        ("swin_tiny_patch4_window7_224", 32, {32, 16}, None, ""),
    ],
)
def test_view_sizes(name, built, sizes, refused, working):
    if refused is None:
        require_view_sizes(name, built, sizes)
        return
    with pytest.raises(UserError, match=f"^image_size: {name} cannot take views of {refused} px") as caught:
        require_view_sizes(name, built, sizes)
    assert working in str(caught.value)
    for side in map(int, re.findall(r"(\d+) px(?= and|$)", str(caught.value))):
        assert (
            build_encoder(name, image_size=side if {built} == sizes else built)(torch.randn(2, 3, side, side)).ndim == 2
        )
