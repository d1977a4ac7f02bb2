"""Weights of other programs: under whatever names they come, outputs are those of the network they were made with."""

import argparse

import pytest
import timm
import torch
import torchvision
from safetensors.torch import save_file
from torch import nn

from hardpair import build_encoder, load_encoder
from hardpair.errors import UserError
from hardpair.models import load_elsewhere, load_weights, read_weights, save_encoder
from hardpair.pixels import MEAN, STD


@pytest.fixture(scope="module")
def resnet():
    """As torchvision makes it, with statistics of batch norm that are not those of the start."""
    torch.manual_seed(0)
    return moved(torchvision.models.resnet18(weights=None))


@pytest.fixture(scope="module")
def vit():
    torch.manual_seed(0)
    network = timm.create_model("test_vit", img_size=32, num_classes=7)
    nn.init.normal_(network.pos_embed)
    return network.eval()


def moved(network):
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_var, 0.5, 2.0)
            nn.init.normal_(module.running_mean, std=0.1)
            nn.init.normal_(module.weight)
    return network.eval()


def features_of(resnet, images):
    return nn.Sequential(*list(resnet.children())[:-1])(images).flatten(1)


def pixels(size=32):
    return torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(1))


def under(prefix, state):
    return {f"{prefix}{name}": value for name, value in state.items()}


def other(state):
    """The averaged network of the same names, which is not the one that is wanted."""
    return {name: value + 1 for name, value in state.items()}


def numbered(state):
    """Of nn.Sequential(*list(resnet.children())[:-1]); other networks as they are."""
    if "conv1.weight" not in state:
        return state
    places = {"conv1": 0, "bn1": 1, "layer1": 4, "layer2": 5, "layer3": 6, "layer4": 7}
    parts = ((name.partition("."), value) for name, value in state.items() if not name.startswith("fc."))
    return {f"{places[first]}{dot}{rest}": value for (first, dot, rest), value in parts}


def layouts_of(state):
    head = {"fc.0.weight": torch.zeros(3, 3)}
    return {
        "torchvision": state,
        "DataParallel": under("module.", state),
        "a checkpoint": {"epoch": 3, "state_dict": state, "optimizer": {"state": {}}, "best_acc1": torch.tensor(1.0)},
        "MoCo": {
            "arch": "resnet18",
            "state_dict": {
                **under("module.encoder_k.", other(state)),
                **under("module.encoder_q.", state),
                "module.queue": torch.zeros(8, 4),
            },
        },
        "MoCo v3": {
            "state_dict": {
                **under("module.momentum_encoder.", other(state)),
                **under("module.base_encoder.", state),
                **under("module.predictor.", head),
            }
        },
        "DINO": {
            "student": under("module.backbone.", other(state)),
            "teacher": {**under("backbone.", state), **under("head.mlp.", head)},
            "epoch": 3,
            "args": argparse.Namespace(arch="resnet18", lr=0.1),
        },
        "lightly": {
            "state_dict": {
                **under("backbone.", numbered(state)),
                **under("backbone_momentum.", numbered(other(state))),
                **under("projection_head.layers.", head),
            }
        },
        "in a model": {"model": {"module": under("encoder.", state)}},
        "half precision": {name: t.half() if t.is_floating_point() else t for name, t in state.items()},
        "no counters": {name: t for name, t in state.items() if not name.endswith("num_batches_tracked")},
    }


LAYOUTS = list(layouts_of({}))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_outputs_of_a_resnet(resnet, layout, tmp_path):
    torch.save(layouts_of(resnet.state_dict())[layout], tmp_path / "weights.pth")
    encoder = load_elsewhere(str(tmp_path / "weights.pth"))
    assert encoder.settings == {"name": "resnet18", "width": 1.0, "small_images": False}
    tolerance = 2e-2 if layout == "half precision" else 1e-5
    wanted = features_of(resnet, pixels()).detach()
    torch.testing.assert_close(encoder(pixels()), wanted, rtol=tolerance, atol=tolerance * float(wanted.abs().max()))
    assert torch.equal(load_encoder(tmp_path / "weights.pth")(pixels()), encoder(pixels()))
    assert not any(module.training for module in encoder.modules())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_outputs_of_a_transformer(vit, layout, tmp_path):
    torch.save(layouts_of(vit.state_dict())[layout], tmp_path / "weights.pth")
    encoder = load_elsewhere(str(tmp_path / "weights.pth"), "test_vit", 32)
    with torch.no_grad():
        wanted = vit.forward_head(vit.forward_features(pixels()), pre_logits=True)
    tolerance = 2e-2 if layout == "half precision" else 1e-5
    torch.testing.assert_close(encoder(pixels()), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("width", [1, 0.5])
def test_deeper_and_narrower_resnets_are_recognised(width, tmp_path):
    torch.manual_seed(0)
    if width == 1:
        source = moved(torchvision.models.resnet50(weights=None))
        wanted = features_of(source, pixels()).detach()
    else:
        source = moved(build_encoder("resnet50", width=width, small_images=True).trunk)
        wanted = source(pixels()).detach()
    save_file(source.state_dict(), tmp_path / "weights.safetensors")
    encoder = load_elsewhere(str(tmp_path / "weights.safetensors"))
    assert encoder.settings == {"name": "resnet50", "width": width, "small_images": width != 1}
    torch.testing.assert_close(encoder(pixels()), wanted, rtol=1e-5, atol=1e-5 * float(wanted.abs().max()))


def test_a_run_gives_its_encoder(finished_run):
    source = load_encoder(finished_run)
    weights = read_weights(str(finished_run))
    encoder = build_encoder(**weights.shape)
    match = load_weights(encoder, weights)
    assert (match.matched, match.missing, match.left_out) == (match.wanted, (), 0)
    assert torch.equal(encoder.eval()(pixels(8)), source(pixels(8)))
    assert torch.equal(load_elsewhere(str(finished_run))(pixels(8)), source(pixels(8)))


def test_position_embeddings_get_the_size_of_the_views(vit, tmp_path):
    """As timm resamples them; and the network then takes views of that size."""
    save_file(vit.state_dict(), tmp_path / "vit.safetensors")
    encoder = load_elsewhere(str(tmp_path / "vit.safetensors"), "test_vit", 64)
    assert encoder.trunk.pos_embed.shape == (1, 17, 64)
    assert torch.equal(encoder.trunk.pos_embed[:, 0], vit.pos_embed[:, 0])  # of the class token, which has no place
    plain = timm.create_model("test_vit", img_size=32, num_classes=0, dynamic_img_size=True).eval()
    plain.load_state_dict({name: value for name, value in vit.state_dict().items() if not name.startswith("head.")})
    torch.testing.assert_close(encoder(pixels(64)), plain(pixels(64)), rtol=1e-4, atol=1e-5)


def test_another_normalisation_is_undone(vit, tmp_path):
    """The encoder gets images normalised by our mean and deviation, and its trunk what it knows."""
    mean, std = (0.5, 0.4, 0.3), (0.25, 0.5, 0.2)
    encoder = build_encoder("test_vit", image_size=32, mean=mean, std=std).eval()
    save_file(vit.state_dict(), tmp_path / "vit.safetensors")
    load_weights(encoder, read_weights(str(tmp_path / "vit.safetensors")))
    colours = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(2))

    def normalised(mean, std):
        return (colours - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)

    with torch.no_grad():
        wanted = vit.forward_head(vit.forward_features(normalised(mean, std)), pre_logits=True)
    torch.testing.assert_close(encoder(normalised(MEAN, STD)), wanted, rtol=1e-5, atol=1e-5)
    save_encoder(encoder, tmp_path, step=0)
    assert torch.equal(load_encoder(tmp_path)(normalised(MEAN, STD)), encoder(normalised(MEAN, STD)))


def test_what_may_be_missing_starts_at_random(resnet, tmp_path):
    state = {name: value for name, value in resnet.state_dict().items() if not name.startswith("layer4.")}
    state["layer3.0.conv1.weight"] = torch.zeros(1)  # of another shape
    torch.save(state, tmp_path / "part.pth")
    weights = read_weights(str(tmp_path / "part.pth"))
    encoder = build_encoder("resnet18")
    before = {name: value.clone() for name, value in encoder.trunk.state_dict().items()}
    for allowed in ((), ("layer4",), ("layer3.0.conv1", "layer5")):
        with pytest.raises(UserError, match=r"nothing was loaded.*--init-may-miss$"):
            load_weights(encoder, weights, may_miss=allowed)
        assert all(torch.equal(value, before[name]) for name, value in encoder.trunk.state_dict().items())
    match = load_weights(encoder, weights, may_miss=("layer4", "layer3.0.conv1"))
    assert all(name.startswith(("layer4", "layer3.0.conv1")) for name in match.missing)
    assert "start at random, as allowed" in encoder.origin
    for name, value in encoder.trunk.state_dict().items():
        assert torch.equal(value, before[name] if name in match.missing else resnet.state_dict()[name]), name
